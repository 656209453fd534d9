"""The documents lead somewhere: links, their anchors, and the list of decisions."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
SKIPPED = {"node_modules", "dist", ".venv", ".kernelzoo"}
ADR = ROOT / "docs" / "adr"

LINK = re.compile(r"\]\(([^()\s]+)\)|(?:src|href)=\"([^\"]+)\"")
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
INLINE_CODE = re.compile(r"`[^`]*`")


def _documents() -> Iterator[Path]:
    for path in sorted(ROOT.rglob("*.md")):
        if not SKIPPED & set(path.relative_to(ROOT).parts):
            yield path


def _links(text: str) -> Iterator[str]:
    prose = INLINE_CODE.sub("", FENCE.sub("", text))
    for target, source in LINK.findall(prose):
        yield target or source


def _anchors(text: str) -> set[str]:
    """Makes anchors of headings as GitHub does: the second of two that are alike ends in -1."""
    headings = re.findall(r"^#+ (.+)$", FENCE.sub("", text), re.MULTILINE)
    names = [re.sub(r"[^\w\- ]", "", each.lower()).replace(" ", "-") for each in headings]
    before = [names[:i].count(name) for i, name in enumerate(names)]
    return {f"{name}-{n}" if n else name for name, n in zip(names, before, strict=True)}


def _broken(document: Path, text: str) -> list[str]:
    return [link for link in _links(text) if not _leads_somewhere(document, link)]


def _leads_somewhere(document: Path, link: str) -> bool:
    if re.match(r"[a-z]+:", link):
        return True
    path, _, anchor = link.partition("#")
    target = (document.parent / path).resolve() if path else document
    if not target.exists():
        return False
    return not anchor or anchor in _anchors(target.read_text())


@pytest.mark.parametrize("document", [*_documents()], ids=lambda path: str(path.relative_to(ROOT)))
def test_every_link_of_a_document_leads_somewhere(document: Path) -> None:
    assert _broken(document, document.read_text()) == []


def test_a_link_to_nothing_is_found() -> None:
    text = "# One\n[a](gone.md) [b](README.md#gone) [c](#one) [d](https://zoo.example)\n"
    assert _broken(ROOT / "README.md", text) == ["gone.md", "README.md#gone", "#one"]


def test_no_row_of_a_table_stands_apart_from_its_head() -> None:
    """A row behind an empty line is shown as text."""
    for document in _documents():
        blocks = re.split(r"\n\s*\n", FENCE.sub("", document.read_text()))
        tables = [block.splitlines() for block in blocks if block.startswith("|")]
        headless = [rows[0] for rows in tables if len(rows) < 2 or not set(rows[1]) <= set("|-: ")]
        assert headless == [], document


def test_an_example_is_where_its_address_says() -> None:
    """`python3 -m http.server 8000 --directory examples` serves them."""
    for document in _documents():
        for path in re.findall(r"127\.0\.0\.1:8000/([\w/]+)", document.read_text()):
            assert (ROOT / "examples" / path / "index.html").exists(), f"{document}: {path}"


def test_every_decision_is_listed_once_in_order_by_its_title() -> None:
    files = sorted(ADR.glob("0*.md"))
    titles = [file.read_text().partition("\n")[0].removeprefix("# ") for file in files]
    listed = re.findall(
        r"^\| \[(\d+)\]\((\S+)\) \| (.+) \|$", (ADR / "README.md").read_text(), re.MULTILINE
    )
    assert [name for _, name, _ in listed] == [file.name for file in files]
    assert [f"{number}: {title}" for number, _, title in listed] == titles
    assert all(name.startswith(number) for number, name, _ in listed)
