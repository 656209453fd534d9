"""Long lists, page by page: each row comes once, and `next` leads on."""

from pathlib import Path
from typing import Any, LiteralString

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
from services.aggregator.publishing import Rule
from tests.database.client import OPERATOR, OPERATOR_KEY, SESSION, Agent, open_agent
from tests.database.conftest import WORKLOAD, Connection, make_candidate, open_space
from tests.database.rows_read import rows_read
from tests.reports import all_ok
from tests.tiny_model import identity_model, register
from workers.aggregating import tally
from workers.maintenance import stalled

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


@pytest.fixture
def second(http: TestClient, owner: Connection, job_id: int) -> Agent:
    """The second of two agents of their own classes. Each has measured, and the kernel of its class
    is confirmed, in two versions, and another denied to it."""
    assert job_id
    for cores in (1, 2):
        agent = open_agent(http, hardware={**SESSION["hardware"], "logical_cores": cores})
        lease = agent.lease().json()
        assert agent.report(lease, all_ok(lease)).status_code == 202
        of = DeviceClass.parse(agent.device_class)
        name = make_candidate(0).candidate_id
        for _ in range(2):
            execute(owner, zoo.retire(WORKLOAD.key, of))
            execute(owner, zoo.publish(WORKLOAD.key, of, name, EntryState.CONFIRMED, NO_EVIDENCE))
        owner.execute(
            "INSERT INTO denied (artifact_sha256, device_class, denied, stage, evidence, operated)"
            " SELECT artifact_sha256, %s, true, 'run', '', true FROM candidate"
            " WHERE candidate_id = %s",
            (agent.device_class, make_candidate(1).candidate_id),
        )
    owner.execute("UPDATE measurement SET verdict = 'verified'")
    return agent


ENTRY = "UPDATE zoo_entry SET relative_time = NULL WHERE device_class = %(class)s"
ENGINES = (
    "UPDATE zoo_entry SET engines = '[{}]' WHERE device_class = %(class)s AND state <> 'retired'"
)
DEVICE = "UPDATE device SET cpu_architecture = NULL WHERE device_id = device_id_of(%(class)s)"
CANDIDATE = "UPDATE candidate SET config = NULL WHERE candidate_id = %(second)s"
DENIED = "UPDATE denied SET evidence = NULL WHERE device_class = %(class)s"
PROGRESS = "UPDATE improvement SET best_ns = 0 WHERE device_class = %(class)s"


@pytest.mark.parametrize(
    ("path", "of", "broken", "lost"),
    [
        ("/v1/overview", ("promotions",), ENTRY, 2),
        ("/v1/promotions", (), ENTRY, 2),
        ("/v1/zoo", ("entries",), ENGINES, 1),
        ("/v1/keys", ("keys",), DEVICE, 1),
        ("/v1/coverage", ("classes",), DEVICE, 1),
        ("/v1/denied", ("decisions",), DENIED, 1),
        ("/v1/keys/{workload}/{class}", ("history",), ENGINES, 1),
        ("/v1/keys/{workload}/{class}", ("candidates",), CANDIDATE, 1),
        ("/v1/keys/{workload}/{class}", ("decisions",), DENIED, None),
        ("/v1/jobs/{job}/progress", ("curves",), DEVICE, 1),
        ("/v1/jobs/{job}/progress", ("curves", 0, "points"), PROGRESS, None),
        ("/v1/results?workload={workload}", ("results", 0, "trials"), CANDIDATE, 1),
    ],
)
def test_a_row_that_cannot_be_told_is_left_out_of_what_the_console_shows(
    http: TestClient,
    owner: Connection,
    job_id: int,
    second: Agent,
    path: str,
    of: tuple[str | int, ...],
    broken: LiteralString,
    lost: int | None,
) -> None:
    """`lost`: so many rows are broken; None for all."""
    for table, column in (
        ("zoo_entry", "relative_time"),
        ("device", "cpu_architecture"),
        ("candidate", "config"),
        ("denied", "evidence"),
    ):
        change = SQL("ALTER TABLE {} ALTER {} DROP NOT NULL")
        owner.execute(change.format(Identifier(table), Identifier(column)))
    named = {"workload": WORKLOAD.key, "class": second.device_class, "job": job_id}

    def shown() -> int:
        answer = http.get(path.format(**named), headers=OPERATOR)
        assert answer.status_code == 200, answer.text
        found = answer.json()
        for place in of:
            found = found[place]
        return len(found)

    before = shown()
    owner.execute(broken, {"class": second.device_class, "second": make_candidate(1).candidate_id})
    assert shown() == (0 if lost is None else before - lost)
    assert before > (lost or 0)


def test_a_model_whose_files_are_lost_takes_no_other_of_its_graph_from_pages(
    http: TestClient, owner: Connection, tmp_path: Path
) -> None:
    for name in ("there", "lost"):
        register(http, identity_model(name))
    graph = "0" * 64
    owner.execute(
        "UPDATE model SET source_graph = %(graph)s, source_weights = %(graph)s", {"graph": graph}
    )
    ((plan,),) = owner.execute("SELECT plan_sha256 FROM model_plan WHERE model = 'lost'").fetchall()
    (file,) = (tmp_path / "models").rglob(f"{plan}*")
    file.unlink()
    found = http.get(f"/v1/graphs/{graph}").json()["models"]
    assert [each["model"]["name"] for each in found] == ["there"]


@pytest.mark.usefixtures("second")
@pytest.mark.parametrize(
    "text", ["of another version", "0123456789abcdef:r1-0:wasm+simd128+of-tomorrow"]
)
def test_a_class_that_a_version_cannot_read_takes_no_list_from_others(
    http: TestClient, owner: Connection, job_id: int, text: str
) -> None:
    """While a version comes that knows more features, or goes again, both read the same rows."""
    of = http.get("/v1/zoo").json()["entries"][0]["device_class"]
    tables = ("zoo_entry", "device_class", "job_progress", "measurement", "denied", "coverage")
    owner.execute("SET session_replication_role = replica")
    for table in (*tables, "improvement"):
        change = SQL("UPDATE {} SET device_class = %s WHERE device_class = %s")
        owner.execute(change.format(Identifier(table)), (text, of))
    for path in (
        *("/v1/overview", "/v1/promotions", "/v1/zoo", "/v1/keys", "/v1/coverage", "/v1/denied"),
        f"/v1/jobs/{job_id}/progress",
    ):
        answer = http.get(path, headers=OPERATOR)
        assert answer.status_code == 200, path
        assert answer.text.count(f'"{text}"') >= 1, path
    results = http.get(f"/v1/results?workload={WORKLOAD.key}", headers=OPERATOR)
    assert results.status_code == 200, "of no target, where the class says of none"


def test_workers_of_a_version_that_knows_fewer_features_go_on(
    db: Connection, owner: Connection, job_id: int
) -> None:
    assert job_id
    text = "0123456789abcdef:r1-0:wasm+of-tomorrow+simd128"
    for name in (text, CLASS.format(1)):
        owner.execute(
            "INSERT INTO waiting_tally (workload_key, device_class, requeued_at)"
            " VALUES (%s, %s, now() - interval '1 hour')",
            (WORKLOAD.key, name),
        )
    wanted = [job.arguments for job in stalled(db, 5, 16) if job.name == "tally"]
    assert sorted(wanted) == sorted([(WORKLOAD.key, text), (WORKLOAD.key, CLASS.format(1))])
    tally(db, WORKLOAD.key, DeviceClass.stored(text), Rule(quorum=1, malicious_share=0.0))


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
    read = rows_read(db, measurements.trials(WORKLOAD.key, [agent.device_class]), "measurement")
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
