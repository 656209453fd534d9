"""Long lists, page by page: each row comes once, and `next` leads on."""

from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from psycopg.sql import SQL, Identifier

from cli import gateway_client
from fixtures.rows import compile_row
from kernelzoo.domain.candidate import Candidate
from kernelzoo.domain.device import DeviceClass
from kernelzoo.domain.target import TargetKind
from kernelzoo.domain.workload import Workload
from kernelzoo.domain.zoo import EntryState
from kernelzoo.settings import Settings
from kernelzoo.store import measurements, zoo
from kernelzoo.store.blocking import execute
from kernelzoo.store.zoo import NO_EVIDENCE
from tests.database.client import OPERATOR, OPERATOR_KEY, SESSION, open_agent
from tests.database.conftest import WORKLOAD, Connection, make_candidate, open_space
from tests.database.rows_read import rows_read
from tests.reports import all_ok
from tests.tiny_model import identity_model, register

CLASS = "{:016x}:r1-0:wasm+simd128"


@pytest.fixture
def settings(settings: Settings, tmp_path: Path) -> Settings:
    return settings.model_copy(update={"models_dir": tmp_path / "models"})


def pages(http: TestClient, path: str, of: str) -> list[list[Any]]:
    joint = "&" if "?" in path else "?"
    answer = http.get(path, headers=OPERATOR).json()
    found = [answer[of]]
    while answer["next"] is not None:
        answer = http.get(f"{path}{joint}after={answer['next']}", headers=OPERATOR).json()
        found.append(answer[of])
    return found


def test_the_zoo_is_listed_page_by_page(http: TestClient, db: Connection, job_id: int) -> None:
    assert job_id
    name = make_candidate(0).candidate_id
    with db.transaction():
        # Published in the same instant, as a transaction has one.
        for number in range(5):
            of = DeviceClass.parse(CLASS.format(number))
            execute(db, zoo.publish(WORKLOAD.key, of, name, EntryState.CONFIRMED, NO_EVIDENCE))
    found = pages(http, "/v1/zoo?limit=2", "entries")
    assert [len(page) for page in found] == [2, 2, 1]
    listed = [entry["device_class"] for page in found for entry in page]
    assert sorted(listed) == [CLASS.format(number) for number in range(5)]
    assert http.get("/v1/zoo?limit=2").json()["total"] == 5
    none = http.get("/v1/zoo", params={"workload": "relu:f32:n4"}).json()
    assert none == {"entries": [], "total": 0, "next": None}
    assert http.get("/v1/zoo?limit=5").json()["next"] is None


@pytest.mark.parametrize(
    ("path", "of", "table", "column"),
    [
        ("/v1/models", "models", "model", "source"),
        ("/v1/jobs", "jobs", "tuning_job", "state"),
        ("/v1/devices", "devices", "device", "gpu_vendor"),
    ],
)
def test_a_row_that_cannot_be_told_takes_no_list_from_others(
    http: TestClient, owner: Connection, path: str, of: str, table: str, column: str
) -> None:
    for number in (1, 2):
        register(http, identity_model(f"of-{number}"))
        http.post("/v1/jobs", json={"workload": f"relu:f32:n{number}"}, headers=OPERATOR)
        open_agent(http, hardware={**SESSION["hardware"], "logical_cores": number})
    names = {"table": Identifier(table), "column": Identifier(column)}
    owner.execute(SQL("ALTER TABLE {table} ALTER {column} DROP NOT NULL").format(**names))
    owner.execute(
        SQL(
            "UPDATE {table} SET {column} = NULL WHERE ctid = (SELECT max(ctid) FROM {table})"
        ).format(**names)
    )
    answer = http.get(path)
    assert answer.status_code == 200
    assert len(answer.json()[of]) == 1


@pytest.mark.usefixtures("nothing_remembered")
def test_a_row_that_cannot_be_told_ends_no_list_of_the_command(
    http: TestClient, owner: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gateway_client, "JOBS_PAGE", 1)
    monkeypatch.setattr(gateway_client, "DEVICES_AT_ONCE", 1)
    client = gateway_client.GatewayClient(url="http://zoo.test", operator_key=OPERATOR_KEY)
    client._http = http
    for number in (1, 2, 3):
        http.post("/v1/jobs", json={"workload": f"relu:f32:n{number}"}, headers=OPERATOR)
        open_agent(http, hardware={**SESSION["hardware"], "logical_cores": number})
    jobs, devices = client.jobs(), client.devices()
    assert len(jobs) == len(devices) == 3
    owner.execute("ALTER TABLE tuning_job ALTER state DROP NOT NULL")
    owner.execute("UPDATE tuning_job SET state = NULL WHERE id = %s", (jobs[1].job,))
    owner.execute("ALTER TABLE device ALTER gpu_vendor DROP NOT NULL")
    owner.execute(
        "UPDATE device SET gpu_vendor = NULL WHERE device_id = %s", (devices[1].device_id,)
    )
    assert client.jobs() == (jobs[0], jobs[2])
    assert client.devices() == (devices[0], devices[2])


def test_a_cursor_of_no_list_is_refused(http: TestClient) -> None:
    for after in ("x", "é", "W10", "WyJhIiwiYiIsImMiXQ", "AAAA"):
        answer = http.get("/v1/zoo", params={"after": after})
        assert (answer.status_code, "cursor" in answer.json()["detail"]) == (422, True), after


def test_results_are_listed_class_by_class(http: TestClient, db: Connection, job_id: int) -> None:
    assert job_id
    for number in range(3):
        agent = open_agent(http, rho=f"r1-{number:02b}")
        lease = agent.lease(limit=2).json()
        agent.report(lease, all_ok(lease))
    db.execute("UPDATE measurement SET verdict = 'verified'")
    path = f"/v1/results?workload={WORKLOAD.key}&limit=2"
    found = pages(http, path, "results")
    assert [len(page) for page in found] == [2, 1]
    assert all(len(results["trials"]) == 2 for page in found for results in page)
    assert http.get(path, headers=OPERATOR).json()["total"] == 3


def test_of_each_candidate_only_the_latest_results_are_read(
    http: TestClient, db: Connection, job_id: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert job_id
    for _ in range(6):
        agent = open_agent(http)
        lease = agent.lease().json()
        agent.report(lease, all_ok(lease))
    db.execute("UPDATE measurement SET verdict = 'verified'")
    counts = "SELECT count(*), count(DISTINCT candidate_id) FROM measurement"
    ((every, candidates),) = db.execute(counts).fetchall()
    monkeypatch.setattr(measurements, "LATEST", 2)
    of = DeviceClass.parse(agent.device_class)
    read = rows_read(db, measurements.trials(WORKLOAD.key, [of]), "measurement")
    assert read <= 2 * candidates < every


def test_a_job_of_another_space_is_on_a_page_of_its_own(http: TestClient, db: Connection) -> None:
    for extent in range(3):
        workload = Workload.of("matmul", (2 + extent, 3, 4))
        candidate = Candidate(
            workload=workload, target=TargetKind.WASM, config=(("tile", 1),), requires=()
        )
        open_space(db, [candidate])
        compile_row(db, candidate)
    first = http.get("/v1/jobs?limit=2").json()
    rest = http.get("/v1/jobs?limit=2&offset=2").json()
    assert (len(first["jobs"]), len(rest["jobs"])) == (2, 1)
    assert first["total"] == rest["total"] == 3
