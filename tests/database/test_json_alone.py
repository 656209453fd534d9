"""Every command that takes --json prints JSON on standard output, and nothing else there."""

import json
from collections.abc import Iterator
from pathlib import Path

import onnx
import pytest
import typer.main
from fastapi.testclient import TestClient
from pydantic import SecretStr
from structlog.testing import capture_logs
from typer.core import TyperGroup
from typer.testing import CliRunner

from cli import application, cost_model, denials, identities, jobs, tune, zoo
from cli.app import app
from cli.gateway_client import GatewayClient
from cli.models import command
from kernelzoo.formats.bundle import any_classes
from kernelzoo.settings import Settings
from kernelzoo.signing import new_seed
from tests.database.client import OPERATOR_KEY, open_agent
from tests.database.conftest import WORKLOAD, Connection
from tests.database.test_commands import T4
from tests.database.test_denials import CLASS, SECOND, artifact_of, publish
from tests.database.test_model_commands import compile_some, network

Words = tuple[str, ...]
ELSEWHERE = {("simulate",)}
"""They start a stack; tests/e2e/test_simulate.py has them."""


@pytest.fixture
def settings(settings: Settings, tmp_path: Path) -> Settings:
    changes = {"models_dir": tmp_path / "models", "signing_key": SecretStr(new_seed())}
    return settings.model_copy(update=changes)


@pytest.fixture
def reached(http: TestClient, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Has commands ask the gateway of the test, whose log is no output of theirs."""
    client = GatewayClient(url="http://zoo.test", operator_key=OPERATOR_KEY)
    client._http = http
    monkeypatch.setattr(GatewayClient, "__exit__", lambda *_: None)
    for module in (application, command, cost_model, denials, identities, jobs, tune, zoo):
        monkeypatch.setattr(module, "reach", lambda *_: client)
    with capture_logs():
        yield


def with_json(group: TyperGroup, path: Words = ()) -> Iterator[Words]:
    for name, each in group.commands.items():
        if isinstance(each, TyperGroup):
            yield from with_json(each, (*path, name))
        elif any("--json" in option.opts for option in each.params):
            yield (*path, name)


@pytest.mark.timeout(400)
@pytest.mark.usefixtures("job_id", "reached")
def test_json_is_all_that_a_command_prints(
    http: TestClient, db: Connection, tmp_path: Path
) -> None:
    agent, artifact = open_agent(http), artifact_of(db, SECOND)
    publish(db, SECOND)
    (tmp_path / "t4.json").write_text(T4)
    file, bundle, key = str(tmp_path / "tiny.onnx"), str(tmp_path / "kernels.zip"), WORKLOAD.key
    onnx.save(network(), file)
    told: dict[Words, object] = {}

    def run(path: str, *words: str) -> None:
        name = tuple(path.split())
        done = CliRunner().invoke(app, [*name, *words, "--json"])
        assert done.exit_code == 0, (path, done.exception, done.output)
        told[name] = json.loads(done.stdout)

    run("compile", "matmul", "2x3x4", "-o", str(tmp_path / "compiled"))
    run("tune", key, "--no-wait")
    run("jobs list")
    run("zoo list")
    run("zoo import", str(tmp_path / "t4.json"), "--format", "t4", "--workload", key)
    run("zoo bundle", key, "-o", bundle)
    run("zoo verify", bundle)
    run("zoo rollback", key, str(CLASS))
    run("zoo denied")
    run("zoo allow", artifact, str(CLASS))
    run("zoo deny", artifact, str(CLASS))
    run("jobs cancel", key)
    run("models add", file, "--name", "tiny", "--dim", "sequence=4", "--no-wait")
    run("models list")
    run("models show", "tiny")
    compile_some(db)
    run("models check", "tiny", "--class", any_classes()[1][0])
    run("models remove", "tiny", "--yes")
    run("cost-model show")
    run("app create", "shop")
    run("app list")
    run("app rotate", "shop")
    run("identities erase", agent.identity, "--yes")
    commands = typer.main.get_command(app)
    assert isinstance(commands, TyperGroup)
    assert {*told, *ELSEWHERE} == set(with_json(commands))
