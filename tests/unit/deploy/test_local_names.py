"""Local names of the client say what a value is: those that do not become fewer."""

import warnings
from pathlib import Path

from scripts.local_names import EMPTY, local_names

LEFT = 132
"""At most so many uses are left, of 516 when they were first counted. It only falls."""


def test_local_names_that_say_nothing_only_become_fewer() -> None:
    count = sum(1 for _ in local_names())
    listed = "`python -m scripts.local_names` lists them"
    assert count <= LEFT, f"a local name is one of {EMPTY}, or ...rest; {listed}"
    if count < LEFT:
        warnings.warn(f"{count} are left: lower LEFT to that", stacklevel=1)


def test_names_are_read_in_code_and_not_in_texts(tmp_path: Path) -> None:
    (tmp_path / "a.ts").write_text(
        "// What was found.\n/**\n * Each made one.\n */\n"
        'const found = read("told");\n'
        "const { made, ...rest } = found;\n"
        "tell(value.told, { wanted: 3 }, `each ${found}`);\n"
        "async rest(): Promise<void> {}\n"
    )
    lines = [int(place.split(":")[1]) for place in local_names([str(tmp_path)])]
    assert lines == [5, 6, 6, 6]
