"""Docstrings say things in sentences: those that open without a main clause become fewer."""

import warnings
from pathlib import Path

import pytest

from scripts.docstrings import OPENINGS, READERS, python_openings, typescript_openings

LEFT = {"python": 0, "typescript": 2}
"""At most so many of each language are left. These numbers only fall."""


@pytest.mark.parametrize("language", READERS)
def test_docstrings_without_a_main_clause_only_become_fewer(language: str) -> None:
    count = sum(1 for _ in READERS[language]())
    listed = f"`python -m scripts.docstrings {language}` lists them"
    assert count <= LEFT[language], f"a docstring opens with one of {OPENINGS}; {listed}"
    if count < LEFT[language]:
        warnings.warn(f"{count} are left: lower LEFT[{language!r}] to that", stacklevel=1)


def test_docstrings_of_every_kind_are_read(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(
        '"""What a module is."""\n'
        'LIMIT = 3\n"""The same for constants."""\n'
        'class Row:\n    """A row. What is in it is said later."""\n'
        '    async def read(self) -> None:\n        """Whether it is read."""\n'
        'text = "What is no docstring."\n"""Whatever is asked for."""\n'
    )
    found = [(opening.line, opening.text) for opening in python_openings([str(tmp_path)])]
    assert sorted(found) == [
        (1, "What a module is."),
        (3, "The same for constants."),
        (7, "Whether it is read."),
    ]
    (tmp_path / "a.ts").write_text(
        "/** How it is. */\n/** Reads it. */\n/**\n * As it was,\n * then. */\n// What is no doc\n"
    )
    found = [(opening.line, opening.text) for opening in typescript_openings([str(tmp_path)])]
    assert found == [(1, "How it is."), (4, "As it was,")]
