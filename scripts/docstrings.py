"""Lists docstrings and TSDoc comments whose first sentence has no main clause.

    python -m scripts.docstrings [python | typescript] [FOLDER ...]

A sentence is taken as such by its opening words: "What is left.", "Whether it holds." and "As a
row." name no subject and no verb, and a reader has to guess both. The rule is a list of words and
no grammar: a complete sentence that opens with one of them is turned around, as in "Weights are
fetched anew where none are kept".
"""

import os
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
OPENINGS = (
    "What", "Whether", "Where", "Those", "As", "Of", "The same", "Who", "Whose", "How", "That",
    "Which", "When", "Why", "In", "With",
)  # fmt: skip
PYTHON = (
    "kernelzoo", "services", "workers", "cli", "bench", "fixtures", "dashboards", "helm", "scripts",
    "examples", "tests",
)  # fmt: skip
TYPESCRIPT = ("client/src", "client/tests", "bench/page/src", "examples")
_WORDS = "|".join(OPENINGS)
DOCSTRING = re.compile(rf'^\s*"""(?P<text>(?:{_WORDS})\b.*)', re.MULTILINE)
"""Modules, classes, functions, fields and constants have theirs at the beginning of a line."""
TSDOC = re.compile(rf"/\*\*\s*(?:\*\s+)?(?P<text>(?:{_WORDS})\b.*)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """The first line of a docstring that opens with one of `OPENINGS`."""

    path: Path
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.path.relative_to(ROOT)}:{self.line}: {self.text}"


def python_openings(folders: Sequence[str] = PYTHON) -> Iterator[Opening]:
    return _openings(folders, ".py", DOCSTRING)


def typescript_openings(folders: Sequence[str] = TYPESCRIPT) -> Iterator[Opening]:
    return _openings(folders, ".ts", TSDOC)


def _openings(folders: Sequence[str], suffix: str, pattern: re.Pattern[str]) -> Iterator[Opening]:
    for path in _files(folders, suffix):
        source = path.read_text()
        for match in pattern.finditer(source):
            text = match["text"].removesuffix('"""').removesuffix("*/").strip()
            line = source.count("\n", 0, match.start("text")) + 1
            yield Opening(path=path, line=line, text=text)


def _files(folders: Sequence[str], suffix: str) -> Iterator[Path]:
    for folder in folders:
        for parent, children, names in os.walk(ROOT / folder):
            children[:] = sorted(set(children) - {"node_modules", "dist"})
            yield from (Path(parent, name) for name in sorted(names) if name.endswith(suffix))


READERS = {"python": python_openings, "typescript": typescript_openings}

if __name__ == "__main__":
    language, *chosen = sys.argv[1:] or ["python"]
    reader = READERS[language]
    for opening in reader(chosen) if chosen else reader():
        print(opening)
