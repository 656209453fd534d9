"""Jobs: which shapes are refused, and who may open one."""

import pytest
from fastapi.testclient import TestClient
from httpx2 import Response

from fixtures.rows import compile_row
from kernelzoo.store import candidates, tuning
from kernelzoo.store.blocking import fetch_all, fetch_one
from tests.database.client import OPERATOR, open_agent
from tests.database.conftest import WORKLOAD, Connection, make_candidate, open_space
from tests.reports import all_ok
from workers.compiling import plan_space


@pytest.mark.parametrize(
    ("workload", "words"),
    [
        ("matmul:f32:m0k768n768", "from 1 to 65536"),
        ("matmul:f32:m-4k768n768", "malformed"),
        ("matmul:f32:m65537k1n1", "from 1 to 65536"),
        ("matmul:f32:m65536k65536n65536", "at most 2147483648"),
        ("matmul:f32:m8193k4n8193", "agents hold at most 268435456"),
        ("matmul:f32:mXk768n768", "malformed"),
        ("matmul:f32:m004k768n768", "did you mean"),
        ("matmul:f64:m4k4n4", "dtype 'f64' is unknown"),
        ("matmul:f16:m4k4n4", "wasm has kernels of f32 alone, not of f16 as in matmul:f16:m4k4n4"),
        ("conv9d:f32:m4k4n4", "operator 'conv9d' is unknown"),
        ("matmul:f32:m4k4", "takes 3 extents"),
        ("", "at least 1"),
    ],
)
def test_shapes_that_mean_nothing_are_refused_with_the_allowed_range(
    http: TestClient, db: Connection, workload: str, words: str
) -> None:
    answer = http.post("/v1/jobs", json={"workload": workload}, headers=OPERATOR)
    assert answer.status_code == 422
    assert words in answer.json()["detail"]
    assert db.execute("SELECT count(*) FROM workload").fetchone() == (0,)


def test_jobs_are_opened_once_and_by_the_operator_alone(http: TestClient, db: Connection) -> None:
    body = {"workload": WORKLOAD.key}
    assert http.post("/v1/jobs", json=body).status_code == 401
    statuses = [http.post("/v1/jobs", json=body, headers=OPERATOR).status_code for _ in range(2)]
    assert statuses == [201, 200]
    assert db.execute("SELECT count(*) FROM tuning_job").fetchone() == (1,)


def test_a_job_is_found_by_its_number(http: TestClient) -> None:
    opened = http.post("/v1/jobs", json={"workload": WORKLOAD.key}, headers=OPERATOR).json()
    assert http.get(f"/v1/jobs/{opened['job']}").json() == opened
    assert "no job 999" in http.get("/v1/jobs/999").json()["detail"]


def cancel(http: TestClient, job: int, headers: dict[str, str] = OPERATOR) -> Response:
    return http.delete(f"/v1/jobs/{job}", headers=headers)


def test_nothing_of_a_cancelled_job_is_lent_or_compiled_and_what_is_held_may_be_reported(
    http: TestClient, db: Connection
) -> None:
    space = [make_candidate(tile) for tile in range(4)]
    job = open_space(db, space)
    for candidate in space[:3]:
        compile_row(db, candidate)
    agent, other = open_agent(http), open_agent(http)
    lease = agent.lease(2).json()
    assert cancel(http, job).json()["state"] == "cancelled"
    assert other.lease().status_code == 204
    assert fetch_one(db, candidates.claim(space[3].candidate_id)) is None
    assert fetch_all(db, candidates.requeue_waiting(-1, 10)) == []
    assert agent.report(lease, all_ok(lease)).status_code == 202
    assert agent.vote(WORKLOAD.key, [space[0].candidate_id]).status_code == 202
    assert agent.lease().status_code == 204


def test_what_a_cancelled_job_found_is_served_on(http: TestClient, db: Connection) -> None:
    space = [make_candidate(tile) for tile in range(2)]
    job = open_space(db, space)
    for candidate in space:
        compile_row(db, candidate)
    agent = open_agent(http)
    before = http.get(f"/v1/zoo/{WORKLOAD.key}/{agent.device_class}").json()["entries"]
    cancel(http, job)
    after = http.get(f"/v1/zoo/{WORKLOAD.key}/{agent.device_class}").json()["entries"]
    assert [entry["wasm"]["kernel"]["candidate"] for entry in after] == [space[0].candidate_id]
    assert after == before


def test_a_cancelled_job_that_waits_for_its_space_is_not_planned(
    http: TestClient, db: Connection
) -> None:
    opened = http.post("/v1/jobs", json={"workload": WORKLOAD.key}, headers=OPERATOR).json()
    cancel(http, opened["job"])
    assert plan_space(db, opened["job"], 16) == ()
    assert fetch_all(db, tuning.requeue_jobs(-1)) == []
    assert http.get("/v1/overview").json()["jobs_unplanned"] == 0


def test_asking_for_a_cancelled_job_again_lets_it_go_on(http: TestClient) -> None:
    body = {"workload": WORKLOAD.key}
    opened = http.post("/v1/jobs", json=body, headers=OPERATOR).json()
    assert [cancel(http, opened["job"]).status_code for _ in range(2)] == [200, 200]
    again = http.post("/v1/jobs", json=body, headers=OPERATOR)
    assert (again.status_code, again.json()) == (200, opened)


def test_strangers_cancel_nothing_and_an_unknown_job_is_named(http: TestClient) -> None:
    opened = http.post("/v1/jobs", json={"workload": WORKLOAD.key}, headers=OPERATOR).json()
    assert cancel(http, opened["job"], {}).status_code == 401
    assert "no job 999" in cancel(http, 999).json()["detail"]
    assert http.get(f"/v1/jobs/{opened['job']}").json()["state"] == "waiting"
