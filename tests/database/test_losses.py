"""A class that loses two devices at one workload is lent nothing more of it, and others are."""

from fastapi.testclient import TestClient

from fixtures.rows import compile_row, plan
from tests.database.client import OPERATOR, Agent, open_agent
from tests.database.conftest import WORKLOAD, Connection, make_candidate


def opened(http: TestClient, db: Connection) -> int:
    """A job of one compiled candidate."""
    body = {"workload": WORKLOAD.key, "target": "wasm"}
    job = int(http.post("/v1/jobs", json=body, headers=OPERATOR).json()["job"])
    plan(db, job, [make_candidate(1)])
    compile_row(db, make_candidate(1))
    return job


def lose(http: TestClient, agent: Agent) -> None:
    body = {
        "workload": WORKLOAD.key,
        "device_class": agent.device_class,
        "why": "its browser took 2049 MiB, and may take 2048",
    }
    assert http.post("/v1/lost-devices", json=body, headers=OPERATOR).status_code == 202


def skipping(http: TestClient, job: int) -> list[str]:
    found: list[str] = http.get(f"/v1/jobs/{job}").json()["skipped_by"]
    return found


def test_after_two_losses_the_class_is_lent_nothing_and_another_class_is(
    http: TestClient, db: Connection
) -> None:
    job = opened(http, db)
    first, second, third = (open_agent(http) for _ in range(3))
    lose(http, first)
    assert second.lease().status_code == 200
    lose(http, second)
    assert third.lease().status_code == 204
    assert skipping(http, job) == [first.device_class]
    other = open_agent(http, rho="r1-1")
    assert other.device_class != first.device_class
    assert other.lease().status_code == 200


def test_losses_of_last_week_and_those_that_the_operator_forgets_count_no_more(
    http: TestClient, db: Connection
) -> None:
    job, agent = opened(http, db), open_agent(http)
    lose(http, agent)
    lose(http, agent)
    assert open_agent(http).lease().status_code == 204
    db.execute("UPDATE lost_device SET lost_at = now() - interval '8 days'")
    assert skipping(http, job) == []
    lose(http, agent)
    lose(http, agent)
    body = {"workload": WORKLOAD.key, "device_class": agent.device_class}
    forgotten = http.delete("/v1/lost-devices", params=body, headers=OPERATOR)
    assert forgotten.status_code == 200
    assert skipping(http, job) == []
    assert open_agent(http).lease().status_code == 200


def test_a_stranger_cannot_take_a_workload_from_a_class(http: TestClient, db: Connection) -> None:
    job, agent = opened(http, db), open_agent(http)
    body = {"workload": WORKLOAD.key, "device_class": agent.device_class, "why": "it hung"}
    answers = [http.post("/v1/lost-devices", json=body) for _ in range(2)]
    assert {answer.status_code for answer in answers} == {401}
    assert skipping(http, job) == []
