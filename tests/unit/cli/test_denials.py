"""What the command line says of decisions, before it asks a gateway."""

from typer.testing import CliRunner

from kernelzoo.cli.zoo import app

CLASS = "0123456789abcdef:r1-0:wasm+simd128"


def test_the_commands_of_the_deny_list_are_there_and_say_what_they_do() -> None:
    shown = CliRunner().invoke(app, ["--help"]).output
    for words in ("deny", "allow", "rollback", "denied"):
        assert words in shown


def test_what_is_no_artifact_is_refused_with_where_to_find_one() -> None:
    result = CliRunner().invoke(app, ["deny", "abc", CLASS, "--url", "http://127.0.0.1:1"])
    assert result.exit_code != 0
    assert "zoo show" in str(result.exception or result.output)
