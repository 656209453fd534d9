"""`kernelzoo app`, `identities` and `zoo bundle`, as they are typed, against the gateway."""

import json
import os
import signal
from collections.abc import Callable
from itertools import count
from pathlib import Path
from types import SimpleNamespace

import pytest
from fastapi.testclient import TestClient
from pydantic import SecretStr
from typer.testing import CliRunner, Result

from cli import application, identities, jobs, tune, zoo
from cli.app import app
from cli.gateway_client import GatewayClient
from kernelzoo.domain.device import DeviceClass
from kernelzoo.domain.zoo import EntryState, Evidence
from kernelzoo.errors import InvalidInput
from kernelzoo.settings import Settings
from kernelzoo.signing import Signer, new_seed
from kernelzoo.store import zoo as store
from kernelzoo.store.blocking import execute
from services.gateway.wire.zoo import ZooEntry
from tests.database.client import OPERATOR, OPERATOR_KEY, open_agent
from tests.database.conftest import WORKLOAD, Connection, make_candidate
from tests.reports import all_ok

SEED = new_seed()
(PUBLIC,) = Signer.of(SEED).public_keys

T4 = """{"results": [{"configuration": {"tile": 99}, "measurements": [
    {"name": "time", "value": 1, "unit": "ms"}], "invalidity": "correct"}]}"""

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
    for module in (application, identities, jobs, tune, zoo):
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
    made = json.loads(run("app", "create", "second", "--json").stdout)
    turned = json.loads(run("app", "rotate", "second", "--json").stdout)
    assert made["name"] == turned["name"] == "second"
    assert made["key"] != turned["key"]
    assert http.get("/v1/sets", headers={"X-Kernelzoo-Key": turned["key"]}).status_code == 200
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
    told = json.loads(run("zoo", "verify", place, "--key", PUBLIC, "--json").stdout)
    assert (told["set"], told["keys"], told["manifests"]) == (WORKLOAD.key, [PUBLIC], 2)
    again = str(tmp_path / "again.zip")
    written = json.loads(run("zoo", "bundle", WORKLOAD.key, "-o", again, "--json").stdout)
    assert (written["output"], written["index"]) == (again, told["index"])
    assert written["bytes"] > 0
    (other,) = Signer.of(new_seed()).public_keys
    assert isinstance(run("zoo", "verify", place, "--key", other).exception, InvalidInput)


@pytest.mark.usefixtures("job_id")
def test_another_tuners_results_are_told_as_json(run: Run, tmp_path: Path) -> None:
    results = tmp_path / "t4.json"
    results.write_text(T4)
    told = run(
        "zoo", "import", str(results), "--format", "t4", "--workload", WORKLOAD.key, "--json"
    )
    assert told.exit_code == 0, told.output
    # The gateway of the test logs to the same place.
    printed = told.stdout[told.stdout.index("{\n") :]
    assert json.loads(printed) == {"accepted": 0, "unknown": 1}


def test_what_a_class_is_not_lent_any_more_is_lent_to_it_again(run: Run, http: TestClient) -> None:
    http.post("/v1/jobs", json={"workload": WORKLOAD.key}, headers=OPERATOR)
    device_class = open_agent(http).device_class
    lost = {"workload": WORKLOAD.key, "device_class": device_class, "why": "it hung"}
    for _ in range(2):
        assert http.post("/v1/lost-devices", json=lost, headers=OPERATOR).status_code == 202
    (job,) = http.get("/v1/jobs").json()["jobs"]
    assert job["skipped_by"] == [device_class]
    again = run("jobs", "unskip", WORKLOAD.key, device_class)
    assert again.exit_code == 0, again.output
    (job,) = http.get("/v1/jobs").json()["jobs"]
    assert job["skipped_by"] == []
    nothing = run("jobs", "unskip", WORKLOAD.key, device_class)
    assert "no loss holds it back" in str(nothing.exception)


@pytest.mark.usefixtures("job_id")
def test_ctrl_c_in_tune_says_that_the_job_goes_on_and_how_to_stop_it(
    run: Run, http: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    entries, asked = GatewayClient.entries, count(1)

    def interrupted(gateway: GatewayClient, workload_key: str) -> tuple[ZooEntry, ...]:
        """Ctrl-C while it waits for the vote."""
        if next(asked) == 2:
            os.kill(os.getpid(), signal.SIGINT)
        return entries(gateway, workload_key)

    monkeypatch.setattr(GatewayClient, "entries", interrupted)
    told = run("tune", WORKLOAD.key)
    assert told.exit_code == 130
    (job,) = http.get("/v1/jobs").json()["jobs"]
    said = " ".join(told.output.split())
    assert "the job goes on without this command" in said
    assert f"`kernelzoo jobs cancel {job['job']}` stops it" in said
    assert job["state"] == "planned"
    assert run("jobs", "cancel", str(job["job"])).exit_code == 0
    (job,) = http.get("/v1/jobs").json()["jobs"]
    assert job["state"] == "cancelled"


@pytest.mark.usefixtures("job_id")
@pytest.mark.parametrize(
    ("limit", "said"),
    [
        (("--idle", "30"), "waited for 120 s; nothing advanced in the last 40"),
        (("--timeout", "70"), "waited for 80 s; nothing advanced in the last 0"),
    ],
)
def test_tune_waits_while_something_advances(
    run: Run, http: TestClient, monkeypatch: pytest.MonkeyPatch, limit: tuple[str, str], said: str
) -> None:
    """A fixed wait is too short where a machine is slow, and too long where nothing comes."""
    entries, asked, now_s = GatewayClient.entries, count(1), [0.0]
    agents = [open_agent(http, rho=f"r1-{number:b}") for number in range(5)]

    def advanced(gateway: GatewayClient, workload_key: str) -> tuple[ZooEntry, ...]:
        """Agents come and measure, one each twenty seconds, until there are no more."""
        if (place := next(asked)) > 1:
            now_s[0] += 20
        if place <= len(agents):
            lease = agents[place - 1].lease(limit=1).json()
            assert agents[place - 1].report(lease, all_ok(lease)).status_code == 202
        return entries(gateway, workload_key)

    monkeypatch.setattr(GatewayClient, "entries", advanced)
    clock = SimpleNamespace(monotonic=lambda: now_s[0], sleep=lambda _: None)
    monkeypatch.setattr(tune, "time", clock)
    told = run("tune", WORKLOAD.key, "--timeout", "1000", *limit)
    assert said in str(told.exception)
    assert "no winner is confirmed yet (ballots: 0, agents: " in str(told.exception)


@pytest.mark.usefixtures("job_id")
def test_json_stands_alone_on_standard_output(
    run: Run, http: TestClient, db: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    of = DeviceClass.parse(open_agent(http).device_class)
    entries, asked = GatewayClient.entries, count(1)
    voted = Evidence(ballots=5, weight=25, total_weight=75, relative_time=0.5, final=True)

    def crowned(gateway: GatewayClient, workload_key: str) -> tuple[ZooEntry, ...]:
        """The vote ends while the command tells how far it is."""
        if next(asked) == 2:
            winner = make_candidate(0).candidate_id
            execute(db, store.publish(workload_key, of, winner, EntryState.CONFIRMED, voted))
        return entries(gateway, workload_key)

    monkeypatch.setattr(GatewayClient, "entries", crowned)
    told = run("tune", WORKLOAD.key, "--json")
    assert told.exit_code == 0, told.output
    (found,) = json.loads(told.stdout)
    assert found["workload"] == WORKLOAD.key
    assert "compiled 3/4" in told.stderr
