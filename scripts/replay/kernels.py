"""Hashes the kernels that one checkout makes: the half of the replay that runs once a commit.

    python -m scripts.replay.kernels [--jobs N] [--all] < workloads.json > kernels.json
    python -m scripts.replay.kernels --show < places.json > texts.json

It is run by the commit that it is about, with that commit's own copy of this file where there is
one. So the JSON that goes in and out stays as it is, and names as little of the code as it can.
"""

import json
import sys
from argparse import ArgumentParser
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import astuple
from functools import partial
from hashlib import sha256
from multiprocessing import get_context

from kernelzoo.domain.candidate import Candidate
from kernelzoo.domain.gpu import GPU_MODELS
from kernelzoo.domain.target import TargetKind
from kernelzoo.domain.workload import Workload
from kernelzoo.errors import KernelZooError
from services.tuner.codegen.wasm.text import disassembly
from services.tuner.compile import compilation, compile_candidate
from services.tuner.passes.switches import ALL_PASSES
from services.tuner.schedules.space import lite_space

WASM = "wasm"
"""The place of a space that belongs to no model of GPU; others are called like their model."""

OF_A_SPACE = 2
"""Candidates that are compiled unless all are asked for: the default, and one drawn by its id."""

SAMPLED_MODELS = ("swiftshader", "any")
"""Models whose spaces take 3 ms to list; those of a real GPU take up to 600."""

ONE_IN = 4
"""Workloads are also looked at on one real model each, one in so many."""

Spaces = dict[str, list[str]]
Hashes = dict[str, str]


def drawn(*names: str) -> int:
    """A number that is the same in every process and at every commit."""
    return int.from_bytes(sha256(" ".join(names).encode()).digest()[:8])


def places(key: str, *, everything: bool) -> Iterator[str]:
    models = [name for name in GPU_MODELS if name not in SAMPLED_MODELS]
    yield WASM
    yield from (name for name in SAMPLED_MODELS if name in GPU_MODELS)
    if everything:
        yield from models
    elif drawn(key) % ONE_IN == 0:
        yield min(models, key=lambda model: drawn(key, model))


def space_of(key: str, place: str) -> tuple[Candidate, ...]:
    """Empty where the target has no kernels for the workload."""
    try:
        if place == WASM:
            return lite_space(Workload.parse(key), TargetKind.WASM)
        return lite_space(Workload.parse(key), TargetKind.WEBGPU, GPU_MODELS[place])
    except KernelZooError:
        return ()


def hashed(key: str, *, everything: bool) -> tuple[Spaces, Hashes]:
    """Of one workload: ids of the candidates of each space, and hashes of the compiled ones."""
    spaces: Spaces = {}
    hashes: Hashes = {}
    for place in places(key, everything=everything):
        space = space_of(key, place)
        spaces[f"{key} {place}"] = [each.candidate_id for each in space]
        first, others = space[:1], sorted(space[1:], key=lambda each: drawn(each.candidate_id))
        for candidate in (*first, *others)[: None if everything else OF_A_SPACE]:
            target = WASM if place == WASM else "webgpu"
            name = f"{key} {target} {candidate.candidate_id}"
            if name not in hashes:
                hashes[name] = f"{artifact_hash(candidate)} {place}"
    return spaces, hashes


def artifact_hash(candidate: Candidate) -> str:
    """Of the bytes, and of the values of their manifest without the names of its fields."""
    try:
        artifact = compile_candidate(candidate)
    except KernelZooError as error:
        return f"refused-{sha256(str(error).encode()).hexdigest()[:8]}"
    told = repr(astuple(artifact.manifest)).encode()
    return sha256(artifact.body + told).hexdigest()[:16]


def text(key: str, place: str, candidate_id: str) -> str:
    """WGSL, or the instructions of a wasm module; with the values that go with it."""
    for candidate in space_of(key, place):
        if candidate.candidate_id == candidate_id:
            try:
                artifact = compile_candidate(candidate)
            except KernelZooError as error:
                return f"refused: {error}\n"
            head = f"config {candidate.config}\nmanifest {astuple(artifact.manifest)}\n"
            if place != WASM:
                return head + artifact.body.decode()
            return head + disassembly(compilation(candidate, ALL_PASSES).function)
    return "not in the space\n"


def replayed(keys: list[str], jobs: int, work: Callable[[str], tuple[Spaces, Hashes]]) -> object:
    spaces: Spaces = {}
    hashes: Hashes = {}
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        for found_spaces, found_hashes in pool.map(work, keys, chunksize=4):
            spaces |= found_spaces
            hashes |= found_hashes
    return {"spaces": spaces, "kernels": hashes}


def main() -> None:
    options = ArgumentParser(description=__doc__)
    options.add_argument("--jobs", type=int, default=1)
    options.add_argument("--all", action="store_true", help="every kernel of every space")
    options.add_argument("--show", action="store_true", help="texts of kernels, not hashes")
    given = options.parse_args()
    asked = json.load(sys.stdin)
    if given.show:
        json.dump([text(*each) for each in asked], sys.stdout)
    else:
        work = partial(hashed, everything=given.all)
        json.dump(replayed(asked, given.jobs, work), sys.stdout)


if __name__ == "__main__":
    main()
