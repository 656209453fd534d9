"""The context of a build: each COPY finds its source in it, the client what it is built of."""

import re
from collections.abc import Iterator
from os.path import normpath
from pathlib import Path

import pytest

from tests.build_context import ROOT, Copy, below, cloned, copied, copies, sent

DOCKERFILES = sorted((ROOT / "docker").rglob("Dockerfile*"))
TEXT = (ROOT / "docker" / "Dockerfile").read_text()
CLONE = cloned()
CONTEXT = sent(CLONE, (ROOT / ".dockerignore").read_text())

LITERAL = re.compile(r"""["'`]([\w./@-]+)["'`]""")
IMPORT = re.compile(r"""(?:\bfrom|\bimport)\s*\(?\s*["'](\.{1,2}/[^"'?]+)""")
COMMENT = re.compile(r"/\*.*?\*/|(?<!:)//[^\n]*", re.DOTALL)


def _text(path: str) -> str:
    return COMMENT.sub("", (ROOT / path).read_text())


def _source(path: str) -> str | None:
    """The file of the clone that an import means: `.js` is written where `.ts` is."""
    for candidate in (path, re.sub(r"\.js$", ".ts", path), re.sub(r"\.js$", ".d.ts", path)):
        if candidate in CLONE:
            return candidate
    return None


def _imports(path: str) -> Iterator[str]:
    folder = str(Path(path).parent)
    for name in IMPORT.findall(_text(path)):
        if found := _source(normpath(f"{folder}/{name}")):
            yield found


def _reachable(entries: frozenset[str]) -> frozenset[str]:
    """The entries and all that they import, at any remove."""
    known, waiting = set(entries), list(entries)
    while waiting:
        path = waiting.pop()
        if path.endswith((".ts", ".js")):
            new = set(_imports(path)) - known
            known |= new
            waiting += new
    return frozenset(known)


def _read_by_the_client_build() -> frozenset[str]:
    """The scripts of the build, the files and folders that they name, and what all of them import.

    A script names paths of the client's folder; tsconfig.declarations.json is one of them.
    """
    scripts = _reachable(frozenset(["client/build.js"]))
    settings = {"client/tsconfig.json", "client/tsconfig.declarations.json"}
    literals = {text for file in scripts | settings for text in LITERAL.findall(_text(file))}
    places = {normpath(f"client/{literal}") for literal in literals} - {"client", "."}
    named = {path for place in places for path in below(place, CLONE)}
    return _reachable(scripts | settings | named)


@pytest.mark.parametrize("file", DOCKERFILES, ids=lambda file: str(file.relative_to(ROOT)))
def test_every_copy_finds_its_source_in_the_context(file: Path) -> None:
    taken = list(copies(file.read_text()))
    assert taken
    for each in taken:
        for source in each.sources:
            assert below(source, CONTEXT), f"{each.stage}: .dockerignore leaves {source} out"


def test_the_client_stage_has_all_that_the_build_of_the_client_reads() -> None:
    read = _read_by_the_client_build()
    expected = {"client/guide.js", "client/src/sdk/index.ts", "client/pages/agent.html"}
    assert expected | {"docs/runbook.md", "examples/chat/chat.ts", "examples/chat/view.ts"} <= read
    assert sorted(read - copied("client", TEXT, CONTEXT)) == []


def test_every_stage_that_installs_code_has_all_of_it() -> None:
    code = {path for name in ("kernelzoo", "services", "workers") for path in below(name, CLONE)}
    for image in ("gateway", "compile", "aggregate", "fleet"):
        held = copied(f"build-{image}", TEXT, CONTEXT)
        assert code <= held
        assert {"docker/install.sh", f"docker/requirements/{image}.lock"} <= held


def test_what_no_image_needs_and_every_secret_stay_outside() -> None:
    others = {".env", ".git/config", ".kernelzoo/keys.json", "client/dist/sdk.js", "tests/a.py"}
    built = {"client/node_modules/a/b.js", "examples/chat/dist/chat.js", "kernelzoo/__pycache__/a"}
    assert sent(others | built, (ROOT / ".dockerignore").read_text()) == frozenset()


def test_the_last_pattern_that_matches_a_path_decides() -> None:
    paths = {"a/b/c.js", "a/d", "e", "f/__pycache__/g"}
    assert sent(paths, "*\n!a\na/b\n") == {"a/d"}
    assert sent(paths, "*\n!a\na/b\n!a/**/c.js") == {"a/d", "a/b/c.js"}
    assert sent(paths, "# nothing but this\n**/__pycache__") == paths - {"f/__pycache__/g"}
    assert sent(paths, "?/?") == {"e", "f/__pycache__/g"}


def test_a_copy_from_another_stage_takes_nothing_of_the_context() -> None:
    text = (
        "FROM x AS one\nCOPY a \\\n  b c/\nFROM y AS two\nCOPY --from=one d e\nCOPY --chown=1 f g\n"
    )
    assert list(copies(text)) == [
        Copy(stage="one", sources=("a", "b")),
        Copy(stage="two", sources=("f",)),
    ]
