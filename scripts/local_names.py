"""Lists uses of local names that do not say what a value is, in the client's sources.

    python -m scripts.local_names [FOLDER ...]

A name is a word of its own in code: no property, no parameter with a type, no method, and nothing
in a comment or a text. `rest` is a noun where something rests, and counted behind three dots alone.
"""

import re
import sys
from collections.abc import Iterator, Sequence
from os.path import relpath

from scripts.docstrings import ROOT

GENERATED = {ROOT / "client/src/wire/schema.ts"}
EMPTY = ("told", "found", "made", "each", "wanted")
"""Words of STYLE.md: what was done to a value, and what is said of any value."""

NO_CODE = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:[^"\\\n]|\\.)*"|`(?:[^`\\]|\\.)*`', re.DOTALL)
"""Comments, texts in quotes, and templates with the code within."""
NAME = re.compile(rf"(?:(?<![\w.#$])(?:{'|'.join(EMPTY)})|(?<=\.\.\.)rest)\b(?!\s*[:(])")
"""Not behind a dot, as properties are, nor before a colon or arguments."""


def local_names(folders: Sequence[str] = ("client/src",)) -> Iterator[str]:
    """Lines of sources by their places, one for each use of such a name."""
    for folder in folders:
        for path in sorted(set((ROOT / folder).rglob("*.ts")) - GENERATED):
            source = path.read_text()
            lines = source.splitlines()
            code = NO_CODE.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), source)
            for match in NAME.finditer(code):
                line = code.count("\n", 0, match.start())
                yield f"{relpath(path, ROOT)}:{line + 1}: {lines[line].strip()}"


if __name__ == "__main__":
    for place in local_names(sys.argv[1:] or ("client/src",)):
        print(place)
