"""Local names of the client say what a value is."""

from pathlib import Path

from scripts.local_names import EMPTY, local_names


def test_no_local_name_says_nothing() -> None:
    places = list(local_names())
    assert places == [], f"a local name is one of {EMPTY}, or ...rest"


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
