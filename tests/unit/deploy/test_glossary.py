"""The glossary's retired words are in no name of the code."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[3]
GLOSSARY = (ROOT / "docs" / "glossary.md").read_text()
SOURCES = ("kernelzoo", "services", "workers", "cli", "bench", "fixtures", "dashboards", "scripts")


def retired() -> set[str]:
    """What stands as `code` in the column "not"."""
    rows = re.findall(r"^\|(.*)\|$", GLOSSARY, re.MULTILINE)
    columns = [row.split("|") for row in rows]
    return {word for each in columns if len(each) == 4 for word in re.findall(r"`(\w+)`", each[2])}


def names(path: Path) -> Iterator[str]:
    """Names of functions, classes, arguments, variables and attributes."""
    for node in ast.walk(ast.parse(path.read_text())):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield name
            case ast.ClassDef(name=name) | ast.Name(id=name) | ast.Attribute(attr=name):
                yield name
            case ast.arg(arg=name):
                yield name


def test_retired_words_are_in_no_name() -> None:
    words = retired()
    assert {"turned", "liars", "rung_at"} <= words, "the table is read as it is written"
    found = {
        f"{path.relative_to(ROOT)}: {name}"
        for folder in SOURCES
        for path in (ROOT / folder).rglob("*.py")
        if "node_modules" not in path.parts
        for name in names(path)
        if name in words or any(name.endswith(f"_{word}") for word in words)
    }
    assert found == set()


def test_no_word_is_defined_twice() -> None:
    terms = re.findall(r"^\| ([^|]+?) \|", GLOSSARY, re.MULTILINE)
    defined = [term for term in terms if term != "word" and not set(term) <= {"-"}]
    assert len(defined) > 60
    assert sorted(defined) == sorted(set(defined))
