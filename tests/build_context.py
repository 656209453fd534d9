"""The context of an image's build, as .dockerignore filters a clone, and what COPY takes of it."""

import re
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
_WILDCARDS = {"**/": "(.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Copy:
    """A COPY from the context: the stage that has it, and its sources."""

    stage: str
    sources: tuple[str, ...]


def cloned() -> frozenset[str]:
    """The files of a clone, by their paths."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    said = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return frozenset(path for path in said.stdout.split("\0") if path and (ROOT / path).exists())


def sent(paths: Iterable[str], ignore: str) -> frozenset[str]:
    """The paths that reach the builder: of all patterns that match one, the last decides.

    `ignore`: the text of a .dockerignore. A pattern that matches a folder matches what is below it.
    """
    rules = [
        (line.startswith("!"), _expression(line.lstrip("!").strip("/")))
        for line in map(str.strip, ignore.splitlines())
        if line and not line.startswith("#")
    ]

    def allowed(path: str) -> bool:
        kept = True
        for keeps, expression in rules:
            if expression.match(path):
                kept = keeps
        return kept

    return frozenset(filter(allowed, paths))


def _expression(pattern: str) -> re.Pattern[str]:
    """The paths that are a pattern's, or below one that is."""
    tokens = re.split(r"(\*\*/|\*\*|\*|\?)", pattern)
    return re.compile(
        "".join(_WILDCARDS.get(token, re.escape(token)) for token in tokens) + "(/|$)"
    )


def copies(dockerfile: str) -> Iterator[Copy]:
    """Yields what a Dockerfile copies from the context, and not from another stage."""
    stage = ""
    for line in dockerfile.replace("\\\n", "").splitlines():
        match line.split():
            case ["FROM", *_, "AS", name]:
                stage = name
            case ["COPY", *words] if not any(word.startswith("--from=") for word in words):
                *sources, _ = (word for word in words if not word.startswith("--"))
                yield Copy(stage=stage, sources=tuple(sources))


def below(source: str, paths: Iterable[str]) -> frozenset[str]:
    """The paths that are `source`, or in that folder; all where it is the context itself."""
    if source == ".":
        return frozenset(paths)
    return frozenset(
        path for path in paths if path == source or path.startswith(f"{source.rstrip('/')}/")
    )


def copied(stage: str, dockerfile: str, context: frozenset[str]) -> frozenset[str]:
    """The files of the context that a stage has."""
    sources = (
        source for each in copies(dockerfile) if each.stage == stage for source in each.sources
    )
    return frozenset[str]().union(*(below(source, context) for source in sources))
