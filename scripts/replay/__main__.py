"""Kernel replay: compiles the kernels of two commits and tells which differ.

    python -m scripts.replay                     # against the merge base with main
    python -m scripts.replay v1.2 --diff 3       # against a commit, with the first three diffs
    python -m scripts.replay --all --check       # every kernel; exits with 1 if any differs
    python -m scripts.replay --all --only conv2d # every kernel of some workloads

Compiled are kernels of the lite space of every workload that the tests, benchmarks, examples and
docs name, and of programs without a name (`programs.py`), for wasm and for the models of GPUs: a
sample that is the same at every commit (60 s of processor time for a commit), or all of them.
A refactoring proves itself by a replay of all of them that finds nothing. The other commit is
checked out beside this one and run with this environment.

Names are no difference: candidates whose id is new are compared by their place in the space, and
kernels apart from the names of tensors and of what WGSL declares.
What differs in those alone is counted as renamed.
"""

import json
import os
import re
import subprocess
import sys
from argparse import ArgumentParser
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import unified_diff
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Self

from cli.stack.signals import interruptible
from scripts.replay.hashing import Hashes, Spaces
from scripts.replay.kernels import WASM
from scripts.replay.programs import programs

ROOT = Path(__file__).parents[2]
HASHER = Path(ROOT, "scripts", "replay", "hashing.py")
MAIN_BRANCHES = ("origin/main", "main")
NAMED_IN = ("tests", "bench", "cli", "examples", "docs", "kernelzoo")
SUFFIXES = (".py", ".txt", ".md", ".html", ".ts")
KEY = re.compile(r"\b[a-z][a-z0-9_]*(?:\+[a-z0-9_]+)*:(?:f32|f16):[a-z0-9]+(?::constant=b)?\b")
LISTED = 10
"""Lines of each kind that are printed, unless all are asked for."""

Place = tuple[str, str, str]
"""Workload, model or wasm, and id of a candidate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """One commit makes these, as `hashing.py` tells it: ids of the candidates of each space, and of
    each kernel a hash, one of the names in it, and a place where it was found."""

    spaces: Spaces
    kernels: Hashes

    @classmethod
    def parsed(cls, told: bytes) -> Self:
        given = json.loads(told)
        return cls(spaces=given["spaces"], kernels=given["kernels"])

    def hash(self, kernel: str) -> str:
        return self.kernels[kernel].split()[0]

    def names(self, kernel: str) -> str:
        return self.kernels[kernel].split()[1]

    def place(self, kernel: str) -> Place:
        key, _, candidate_id = kernel.split()
        return key, self.kernels[kernel].split()[2], candidate_id


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """Names of kernels and of candidates of spaces, each in order; `same` is a count.

    A renamed kernel differs in names alone; `identified` counts candidates whose id is new.
    """

    changed: tuple[str, ...]
    renamed: tuple[str, ...]
    appeared: tuple[str, ...]
    disappeared: tuple[str, ...]
    reordered: tuple[str, ...]
    same: int
    identified: int

    @classmethod
    def between(cls, before: Replay, after: Replay) -> Self:
        former = formers(before, after)
        both = sorted(
            kernel
            for kernel, was in former.items()
            if kernel in after.kernels and was in before.kernels
        )
        changed = [each for each in both if before.hash(former[each]) != after.hash(each)]
        renamed = [
            each
            for each in both
            if each not in changed and before.names(former[each]) != after.names(each)
        ]
        return cls(
            changed=tuple(changed),
            renamed=tuple(renamed),
            appeared=tuple(_only_in(after.spaces, before.spaces)),
            disappeared=tuple(_only_in(before.spaces, after.spaces)),
            reordered=tuple(_reordered(before.spaces, after.spaces)),
            same=len(both) - len(changed) - len(renamed),
            identified=sum(kernel != was for kernel, was in former.items()),
        )

    @property
    def none(self) -> bool:
        """True if nothing but names differs."""
        return not (self.changed or self.appeared or self.disappeared or self.reordered)


def formers(before: Replay, after: Replay) -> dict[str, str]:
    """Kernels of `after` with the name that each has in `before`."""
    found: dict[str, str] = {}
    for space in before.spaces.keys() & after.spaces.keys():
        key, place = space.split()
        head = f"{key} {WASM if place == WASM else 'webgpu'}"
        for was, now in _paired(before.spaces[space], after.spaces[space]):
            found[f"{head} {now}"] = f"{head} {was}"
    return found


def _paired(one: list[str], other: list[str]) -> Iterator[tuple[str, str]]:
    """The candidates of both spaces, by id; those that the other space has not, by their place."""
    ids, others = set(one), set(other)
    yield from ((each, each) for each in one if each in others)
    for was, now in zip(one, other, strict=False):
        if was not in others and now not in ids:
            yield was, now


def _only_in(one: Spaces, other: Spaces) -> Iterator[str]:
    for space in sorted(one):
        paired = {each for each, _ in _paired(one[space], other.get(space, []))}
        yield from (f"{space} {each}" for each in sorted(set(one[space]) - paired))


def _reordered(one: Spaces, other: Spaces) -> Iterator[str]:
    """Spaces of the same candidates in another order: who knows nothing is served the first."""
    for space in sorted(one.keys() & other.keys()):
        if one[space] != other[space] and sorted(one[space]) == sorted(other[space]):
            yield space


def main() -> None:
    options = ArgumentParser(prog="python -m scripts.replay", description=__doc__)
    options.add_argument("base", nargs="?", help="a commit; left out, the merge base with main")
    options.add_argument("--all", action="store_true", help="every kernel, not a sample")
    options.add_argument("--only", default="", metavar="TEXT", help="workloads named like it")
    options.add_argument("--diff", type=int, default=0, metavar="N", help="print N diffs of texts")
    options.add_argument("--check", action="store_true", help="exit with 1 if anything differs")
    options.add_argument("--list", action="store_true", help="print every name")
    given = options.parse_args()
    base = given.base or _default_base()
    if base is None:
        print("kernel replay: this checkout has no earlier commit to compare with")
        return
    with interruptible(), _checked_out(base) as other:
        named = keys_named(other) | keys_named(ROOT)
        texts = programs()
        keys = sorted(key for key in named | texts.keys() if given.only in key)
        known = [*texts.values()]
        before, after = replays((other, ROOT), keys, known, everything=given.all)
        changes = Changes.between(before, after)
        _tell(changes, base, len(keys), None if given.list else LISTED)
        for name in changes.changed[: given.diff]:
            was = formers(before, after)[name]
            old, new = (
                _shown(other, before.place(was), known),
                _shown(ROOT, after.place(name), known),
            )
            sys.stdout.writelines(unified_diff(old, new, f"before/{was}", f"after/{name}"))
    if given.check and not changes.none:
        sys.exit(1)


def _git(*arguments: str) -> str | None:
    """Its answer; None where it has none."""
    done = subprocess.run(
        ("git", "-C", str(ROOT), *arguments), capture_output=True, text=True, check=False
    )
    return done.stdout.strip() if done.returncode == 0 else None


def _default_base() -> str | None:
    """Finds where this branch left main; of main itself the commit before, or the last one where
    the checkout holds changes to it."""
    head = _git("rev-parse", "HEAD")
    for main in MAIN_BRANCHES:
        base = _git("merge-base", "HEAD", main)
        if base is not None and base != head:
            return base
    return head if _git("status", "--porcelain") else _git("rev-parse", "--verify", "HEAD~1")


@contextmanager
def _checked_out(commit: str) -> Iterator[Path]:
    """A worktree of the commit, removed afterwards."""
    with TemporaryDirectory(prefix="kernelzoo-replay-") as folder:
        path = Path(folder, "base")
        if _git("worktree", "add", "--detach", str(path), commit) is None:
            sys.exit(f"kernel replay: {commit} is no commit of this checkout; fetch it first")
        try:
            yield path
        finally:
            _git("worktree", "remove", "--force", str(path))


def keys_named(root: Path) -> set[str]:
    """Finds what looks like the key of a workload; what is none has no space."""
    return {
        key
        for folder in NAMED_IN
        for path in Path(root, folder).rglob("*")
        if path.suffix in SUFFIXES and "node_modules" not in path.parts
        for key in KEY.findall(path.read_text())
    }


def replays(
    roots: Sequence[Path], keys: list[str], texts: Sequence[str] = (), *, everything: bool
) -> list[Replay]:
    """Both at once, each on its share of the cores. `texts` are programs that keys name."""
    jobs = max(1, (os.cpu_count() or 1) // len(roots))
    arguments = ("--jobs", str(jobs), *(("--all",) if everything else ()))
    running = [_started(root, *arguments) for root in roots]
    for process in running:
        assert process.stdin is not None
        process.stdin.write(json.dumps([keys, texts]).encode())
        process.stdin.close()
    try:
        return [Replay.parsed(_told(process)) for process in running]
    finally:
        for process in running:
            process.terminate()
            process.wait()


def _started(root: Path, *arguments: str) -> subprocess.Popen[bytes]:
    """Our hasher on the commit's code, with the commit's own `kernels.py` where it has one."""
    return subprocess.Popen(
        (sys.executable, str(HASHER), *arguments),
        cwd=root,
        env=os.environ | {"PYTHONPATH": f"{root}{os.pathsep}{ROOT}"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )


def _told(process: subprocess.Popen[bytes]) -> bytes:
    assert process.stdout is not None
    told = process.stdout.read()
    if process.wait():
        sys.exit("kernel replay: a commit's kernels could not be hashed; see above")
    return told


def _shown(root: Path, place: Place, texts: Sequence[str]) -> list[str]:
    process = _started(root, "--show")
    told, _ = process.communicate(json.dumps([[place], texts]).encode())
    if process.returncode:
        sys.exit("kernel replay: a kernel could not be printed; see above")
    (text,) = json.loads(told)
    return str(text).splitlines(keepends=True)


def _tell(changes: Changes, base: str, workloads: int, most: int | None) -> None:
    print(
        f"kernel replay of {workloads} workloads against {base[:12]}: {changes.same} kernels are "
        f"the same, {len(changes.renamed)} renamed, {len(changes.changed)} changed; "
        f"{len(changes.appeared)} candidates appeared, {len(changes.disappeared)} disappeared, "
        f"{changes.identified} have a new id, {len(changes.reordered)} spaces were reordered"
    )
    for what in ("changed", "renamed", "appeared", "disappeared", "reordered"):
        names: tuple[str, ...] = getattr(changes, what)
        if names:
            print(f"{what}: {', '.join(f'{n} of {kind}' for kind, n in _kinds(names))}")
        for name in names[:most]:
            print(f"  {name}")
        if most is not None and len(names) > most:
            print(f"  and {len(names) - most} more; --list prints them")


def _kinds(names: Sequence[str]) -> list[tuple[str, int]]:
    """Counts kernels of each operator and target, the most first."""

    def kind(name: str) -> str:
        key, place, *_ = name.split()
        return f"{key.partition(':')[0]} {WASM if place == WASM else 'webgpu'}"

    return Counter(map(kind, names)).most_common()


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit("kernel replay: interrupted")
