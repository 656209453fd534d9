"""`kernelzoo app`, `identities` and `zoo bundle`, as they are typed, against the gateway."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from pydantic import SecretStr
from typer.testing import CliRunner, Result

from cli import application, identities, zoo
from cli.app import app
from cli.gateway_client import GatewayClient
from kernelzoo.errors import InvalidInput
from kernelzoo.settings import Settings
from kernelzoo.signing import Signer, new_seed
from tests.database.client import OPERATOR_KEY, open_agent
from tests.database.conftest import WORKLOAD, Connection

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
    for module in (application, identities, zoo):
        monkeypatch.setattr(module, "reach", reach)

    def typed(*words: str, answer: str = "") -> Result:
        return CliRunner().invoke(app, words, input=answer)

    return typed


def test_an_identity_is_erased_by_its_number_or_its_token_once_that_is_confirmed(
    run: Run, http: TestClient, db: Connection
) -> None:
    first, second = (open_agent(http) for _ in range(2))
    numbers = [
        str(number) for (number,) in db.execute("SELECT id FROM identity ORDER BY created_at")
    ]
    declined = run("identities", "erase", numbers[0], answer="n\n")
    assert declined.exit_code == 1
    assert "1 sessions, 0 leases" in declined.output
    assert db.execute("SELECT count(*) FROM agent_session").fetchone() == (2,)
    assert "erased" in run("identities", "erase", numbers[0], answer="y\n").output
    told = json.loads(run("identities", "erase", second.identity, "--yes", "--json").stdout)
    assert (told["identity"], told["erased"]["sessions"]) == (numbers[1], 1)
    assert db.execute("SELECT count(*) FROM agent_session").fetchone() == (0,)
    again = run("identities", "erase", numbers[0], "--yes")
    assert "there is no identity" in str(again.exception)
    for nonsense in ("me", first.token.replace(".", "!"), "a.b.c", "a.W10.c"):
        assert isinstance(run("identities", "erase", nonsense, "--yes").exception, InvalidInput)


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
