"""Pages of tests run what files of `tests/browser/pages` hold, which are checked as the client's
own code is, and not in strings of Python."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).parents[1] / "browser"
LONGEST = 4
"""Lines of JavaScript that a call may have in its own place."""
MOST = 664
"""Lines in longer texts. It only falls: lower it with what moves to files."""
JAVASCRIPT = re.compile(r"=>|\bawait \w|\bconst [\w\[{]|\bfunction\b.*\{")


def texts(tree: ast.AST) -> Iterator[str]:
    """Yields the texts of constants, and of f-strings without their values."""
    inside = {
        part for each in ast.walk(tree) if isinstance(each, ast.JoinedStr) for part in each.values
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            constants = [part.value for part in node.values if isinstance(part, ast.Constant)]
            yield "".join(str(each) for each in constants)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in inside:
            yield node.value


def long_javascript(file: Path) -> int:
    """Counts the lines of JavaScript in long texts of a file."""
    counts = [
        len(text.strip().splitlines())
        for text in texts(ast.parse(file.read_text()))
        if JAVASCRIPT.search(text)
    ]
    return sum(count for count in counts if count > LONGEST)


def test_tests_hold_no_more_javascript_than_before() -> None:
    counts = {file.name: long_javascript(file) for file in TESTS.rglob("*.py")}
    listed = sorted(f"{count} {name}" for name, count in counts.items() if count)
    assert sum(counts.values()) <= MOST, "\n".join(listed)
