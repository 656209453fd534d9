"""Finds what a terminal shows in the end, of all that was written to it, and a picture of it."""

import re
from io import StringIO

from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

COLUMNS = 72
# Cursor up, erase the line, and what else a display in place writes; colours stay in the text.
CONTROL = re.compile(
    r"\x1b\[(\d*)A|\x1b\[2K|\x1b\[\?\d+[hl]|\r\n|\n|\r|((?:(?!\x1b\[[\d?]*[AKhl])[^\r\n])+)"
)


def final_lines(written: str) -> list[str]:
    """Returns lines as they stand when all of it was written, with their colours."""
    lines, row = [""], 0
    for found in CONTROL.finditer(written):
        token = found[0]
        match token:
            case "\r" | "":
                continue
            case "\n" | "\r\n":
                row += 1
                lines += [""] * (row - len(lines) + 1)
            case "\x1b[2K":
                lines[row] = ""
            case _ if token.endswith("A") and token.startswith("\x1b"):
                row = max(0, row - int(found[1] or 1))
            case _ if found[2] is not None:
                lines[row] += token
    return lines


def drawn(lines: list[str]) -> str:
    """Draws lines as an SVG of a terminal's window."""
    console = Console(record=True, width=COLUMNS, file=StringIO(), force_terminal=True)
    console.print(Text.from_ansi("\n".join(lines).rstrip()))
    return console.export_svg(title="make demo", theme=MONOKAI)
