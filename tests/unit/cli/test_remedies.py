"""The mistakes that people make most: each is answered with what, why and what to do."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.app import main
from cli.demo.examples import served_examples
from cli.gateway_client import GatewayClient, reach
from cli.stack.place import Place
from cli.stack.ports import free_port
from cli.stack.postgres import start_postgres
from kernelzoo.errors import InvalidInput, StackError


@pytest.fixture
def somebody(tmp_path: Path) -> Iterator[str]:
    """A server that is no gateway."""
    with served_examples(tmp_path) as address:
        yield address


def test_data_of_another_postgresql_is_left_alone_and_the_way_out_is_said(tmp_path: Path) -> None:
    place = Place.at(tmp_path)
    place.postgres.mkdir(exist_ok=True)
    (place.postgres / "PG_VERSION").write_text("15\n")
    with pytest.raises(StackError, match=r"is of PostgreSQL 15, .* brings \d+; move it away"):
        start_postgres(place)
    assert [file.name for file in place.postgres.iterdir()] == ["PG_VERSION"]


def test_without_a_stack_it_is_said_how_to_start_one(tmp_path: Path) -> None:
    with pytest.raises(StackError, match=r"start one with `kernelzoo up`.* --state"):
        reach(tmp_path / "none", None)


def test_an_address_without_its_scheme_is_given_one(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"write http://localhost:8787 or https://"):
        reach(tmp_path, "localhost:8787")


def test_where_nobody_listens_it_is_said_how_to_start_or_name_a_gateway() -> None:
    with (
        GatewayClient(url=f"http://127.0.0.1:{free_port()}") as gateway,
        pytest.raises(StackError, match=r"does not answer .*`kernelzoo up`, or name another"),
    ):
        gateway.entries()


def test_another_server_is_no_gateway(somebody: str) -> None:
    with (
        GatewayClient(url=somebody) as gateway,
        pytest.raises(InvalidInput, match=r"status 404.* whether a kernelzoo gateway listens"),
    ):
        gateway.entries()


@pytest.mark.parametrize("options", [("--output", "file/out"), ("-o", "file/out")])
def test_a_place_that_cannot_be_written_is_a_sentence(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    options: tuple[str, ...],
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["kernelzoo", "compile", "matmul", "8x8x8", *options])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 1
    said = " ".join(capsys.readouterr().err.split())
    assert said == (
        "kernelzoo: file/out: Not a directory; name another place with --state or --output"
    )
