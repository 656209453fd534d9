"""The glossary's retired words are in no name of the code, in any of its languages."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[3]
GLOSSARY = (ROOT / "docs" / "glossary.md").read_text()
TYPESCRIPT = ("client/src", "bench/page/src", "examples")
SQL = ROOT / "kernelzoo" / "store" / "schema.sql"
SOURCES = ("kernelzoo", "services", "workers", "cli", "bench", "fixtures", "dashboards", "scripts")


def retired() -> set[str]:
    """Returns what stands as `code` in the column "not"."""
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


def plain_names(text: str) -> Iterator[str]:
    """Words of TypeScript or SQL outside of comments and text, as Python would spell them."""
    code = re.sub(r"/\*.*?\*/|//[^\n]*|--[^\n]*|\"[^\"\n]*\"|`[^`]*`", " ", text, flags=re.DOTALL)
    for name in re.findall(r"[A-Za-z_]\w*", code):
        yield re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def test_retired_words_are_in_no_name_of_the_client_or_the_schema() -> None:
    words = {word.lower() for word in retired()}
    assert list(plain_names("let rungAt = 1; // liars")) == ["let", "rung_at"]
    files = [SQL, *(f for folder in TYPESCRIPT for f in (ROOT / folder).rglob("*.[tj]s"))]
    assert len(files) > 100
    found = {
        f"{path.relative_to(ROOT)}: {name}"
        for path in files
        for name in plain_names(path.read_text())
        if name in words or any(name.endswith(f"_{word}") for word in words)
    }
    assert found == set()


def test_no_word_is_defined_twice() -> None:
    terms = re.findall(r"^\| ([^|]+?) \|", GLOSSARY, re.MULTILINE)
    defined = [term for term in terms if term != "word" and not set(term) <= {"-"}]
    assert len(defined) > 60
    assert sorted(defined) == sorted(set(defined))
