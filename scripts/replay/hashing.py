"""Hashes the kernels that one commit makes: the half of a replay that runs once a commit.

    python scripts/replay/hashing.py [--jobs N] [--all] < workloads.json > kernels.json
    python scripts/replay/hashing.py --show < places.json > texts.json

`PYTHONPATH` says which commit. Workloads come as keys. Programs without a name come as texts
beside them.
"""

import json
import re
import sys
from argparse import ArgumentParser
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import partial
from hashlib import sha256
from multiprocessing import get_context
from typing import TYPE_CHECKING

from kernelzoo.errors import KernelZooError
from scripts.replay.kernels import GPU_MODELS, WASM, compile_candidate, learn, space_of, text

if TYPE_CHECKING:
    from kernelzoo.domain.candidate import Candidate

OF_A_SPACE = 2
"""Candidates that are compiled unless all are: the default, and one drawn by its place."""

SAMPLED_MODELS = ("swiftshader", "any")
"""Models whose spaces take 3 ms to list; those of a real GPU take up to 600."""

ONE_IN = 4
"""Workloads are also looked at on one real model each, one in so many."""

DECLARED = re.compile(
    r"\b(?:var(?:<[^>]*>)?|let|const|fn|struct)\s+([A-Za-z_]\w*)|\b([A-Za-z_]\w*)\s*:"
)
"""Names that a WGSL module chooses: what it declares, and parameters before their type."""
WORD = re.compile(r"[A-Za-z_]\w*")

Spaces = dict[str, list[str]]
Hashes = dict[str, str]


def drawn(*names: str) -> int:
    """A number that is the same in every process and at every commit."""
    return int.from_bytes(sha256(" ".join(names).encode()).digest()[:8])


def places(name: str, *, everything: bool) -> Iterator[str]:
    models = [each for each in GPU_MODELS if each not in SAMPLED_MODELS]
    yield WASM
    yield from (each for each in SAMPLED_MODELS if each in GPU_MODELS)
    if everything:
        yield from models
    elif drawn(name) % ONE_IN == 0:
        yield min(models, key=lambda model: drawn(name, model))


def hashed(name: str, *, everything: bool) -> tuple[Spaces, Hashes]:
    """The candidates' ids of each space of one workload, and hashes of the compiled ones."""
    spaces: Spaces = {}
    hashes: Hashes = {}
    for place in places(name, everything=everything):
        space = space_of(name, place)
        spaces[f"{name} {place}"] = [each.candidate_id for each in space]
        others = sorted(range(1, len(space)), key=lambda ordinal: drawn(name, str(ordinal)))
        ordinals = [*range(min(1, len(space))), *others]
        for candidate in (space[n] for n in ordinals[: None if everything else OF_A_SPACE]):
            target = WASM if place == WASM else "webgpu"
            kernel = f"{name} {target} {candidate.candidate_id}"
            if kernel not in hashes:
                hashes[kernel] = f"{artifact_hash(candidate)} {place}"
    return spaces, hashes


def artifact_hash(candidate: "Candidate") -> str:
    """A hash of the bytes and of the manifest without its names, then one of those names."""
    try:
        artifact = compile_candidate(candidate)
    except KernelZooError as error:
        return f"refused-{type(error).__name__} -"
    body: bytes = artifact.body
    names: list[str] = []
    values = repr(_values(artifact.manifest, names))
    if not body.startswith(b"\0asm"):
        body = nameless(body.decode(), names)
    return f"{_digest(body + values.encode())} {_digest(repr(names).encode())}"


def nameless(wgsl: str, names: list[str]) -> bytes:
    """The text with a number in place of each name that it declares; the names go to `names`."""
    declared = {one or other for one, other in DECLARED.findall(wgsl)}
    numbers: dict[str, str] = {}

    def numbered(word: str) -> str:
        return numbers.setdefault(word, f"_{len(numbers)}_") if word in declared else word

    told = WORD.sub(lambda match: numbered(match[0]), wgsl).encode()
    names += numbers
    return told


def _values(told: object, names: list[str]) -> object:
    """A manifest without the names of its fields; those of its tensors go to `names`."""
    if is_dataclass(told):
        pairs = [(field.name, getattr(told, field.name)) for field in fields(told)]
        names += [str(value) for name, value in pairs if name == "name"]
        return tuple(_values(value, names) for name, value in pairs if name != "name")
    if isinstance(told, tuple):
        return tuple(_values(each, names) for each in told)
    return told.value if isinstance(told, Enum) else told


def _digest(told: bytes) -> str:
    return sha256(told).hexdigest()[:16]


def replayed(
    workloads: list[str],
    texts: list[str],
    jobs: int,
    work: Callable[[str], tuple[Spaces, Hashes]],
) -> object:
    spaces: Spaces = {}
    hashes: Hashes = {}
    with ProcessPoolExecutor(
        jobs, mp_context=get_context("spawn"), initializer=learn, initargs=(texts,)
    ) as pool:
        for found_spaces, found_hashes in pool.map(work, workloads, chunksize=4):
            spaces |= found_spaces
            hashes |= found_hashes
    return {"spaces": spaces, "kernels": hashes}


def main() -> None:
    options = ArgumentParser(description=__doc__)
    options.add_argument("--jobs", type=int, default=1)
    options.add_argument("--all", action="store_true", help="every kernel of every space")
    options.add_argument("--show", action="store_true", help="texts of kernels, not hashes")
    given = options.parse_args()
    asked, texts = json.load(sys.stdin)
    if given.show:
        learn(texts)
        json.dump([text(*each) for each in asked], sys.stdout)
    else:
        work = partial(hashed, everything=given.all)
        json.dump(replayed(asked, texts, given.jobs, work), sys.stdout)


if __name__ == "__main__":
    main()
