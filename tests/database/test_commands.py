"""`kernelzoo app` and `kernelzoo zoo bundle`, as they are typed, against the gateway."""

from collections.abc import Callable
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from pydantic import SecretStr
from typer.testing import CliRunner, Result

from kernelzoo.cli import application, zoo
from kernelzoo.cli.app import app
from kernelzoo.cli.gateway_client import GatewayClient
from kernelzoo.errors import InvalidInput
from kernelzoo.settings import Settings
from kernelzoo.signing import Signer, new_seed
from tests.database.client import OPERATOR_KEY
from tests.database.conftest import WORKLOAD

SEED = new_seed()
(PUBLIC,) = Signer.of(SEED).public_keys

Run = Callable[..., Result]


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return settings.model_copy(update={"signing_key": SecretStr(SEED)})


@pytest.fixture
def run(http: TestClient, monkeypatch: pytest.MonkeyPatch) -> Run:
    def reach(*_: object) -> GatewayClient:
        client = GatewayClient(url="http://zoo.test", operator_key=OPERATOR_KEY)
        client._http = http
        return client

    # The client of the tests is used again.
    monkeypatch.setattr(GatewayClient, "__exit__", lambda *_: None)
    for module in (application, zoo):
        monkeypatch.setattr(module, "reach", reach)

    def typed(*words: str) -> Result:
        return CliRunner().invoke(app, words)

    return typed


def test_an_application_is_made_listed_rotated_and_disabled(run: Run, http: TestClient) -> None:
    key = run("app", "create", "shop", "--origin", "https://www.example").stdout.strip()
    listed = http.get("/v1/sets", headers={"X-Kernelzoo-Key": key})
    assert listed.json() == {"sets": []}
    assert "https://www.example" in run("app", "list").stdout
    other = run("app", "rotate", "shop").stdout.strip()
    assert http.get("/v1/sets", headers={"X-Kernelzoo-Key": key}).status_code == 403
    assert run("app", "disable", "shop").exit_code == 0
    assert http.get("/v1/sets", headers={"X-Kernelzoo-Key": other}).status_code == 403
    assert "disabled" in run("app", "list").stdout
    wrong = run("app", "create", "Shop")
    assert isinstance(wrong.exception, InvalidInput)


@pytest.mark.parametrize("key", ["", "wrong"])
def test_without_the_key_the_command_says_where_it_belongs(http: TestClient, key: str) -> None:
    client = GatewayClient(url="http://zoo.test", operator_key=key)
    client._http = http
    with pytest.raises(InvalidInput, match=r"operator.*; set KERNELZOO_OPERATOR_KEY to the key"):
        client.applications()


@pytest.mark.usefixtures("job_id")
def test_a_bundle_is_written_and_verified_by_its_key(run: Run, tmp_path: Path) -> None:
    place = str(tmp_path / "kernels.zip")
    made = run("zoo", "bundle", WORKLOAD.key, "-o", place, "--key", PUBLIC)
    assert made.exit_code == 0, made.output
    assert PUBLIC in made.stdout
    checked = run("zoo", "verify", place, "--key", PUBLIC)
    assert checked.exit_code == 0, checked.output
    (other,) = Signer.of(new_seed()).public_keys
    assert isinstance(run("zoo", "verify", place, "--key", other).exception, InvalidInput)
