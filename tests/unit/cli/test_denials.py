"""The command line judges decisions before it asks a gateway."""

import pytest
from typer.testing import CliRunner

from cli.denials import one_named
from cli.zoo import app
from kernelzoo.errors import InvalidInput

CLASS = "0123456789abcdef:r1-0:wasm+simd128"


def test_the_commands_of_the_deny_list_are_there_and_say_what_they_do() -> None:
    shown = CliRunner().invoke(app, ["--help"]).output
    for words in ("deny", "allow", "rollback", "denied"):
        assert words in shown


def test_what_is_no_artifact_is_refused_with_where_to_find_one() -> None:
    result = CliRunner().invoke(app, ["deny", "abc", CLASS, "--url", "http://127.0.0.1:1"])
    assert result.exit_code != 0
    assert "zoo show" in str(result.exception or result.output)


def test_a_name_may_be_cut_short_where_it_names_one_and_is_refused_where_several() -> None:
    names = (CLASS, "0123ffff:r1-0:wasm", "9999:r1-0:wasm")
    assert one_named("99", names) == "9999:r1-0:wasm"
    assert one_named(CLASS, (CLASS, f"{CLASS}+threads")) == CLASS
    assert one_named("unknown", names) == "unknown"
    with pytest.raises(InvalidInput, match=r"0123 may be .* or .*; write more"):
        one_named("0123", names)
