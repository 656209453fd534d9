"""Leases: who is lent what, and which answers change nothing."""

import json
import math
from concurrent.futures import ThreadPoolExecutor
from threading import Timer
from typing import Any

import pytest
from fastapi.testclient import TestClient
from httpx2 import Response

from fixtures.rows import compile_row
from kernelzoo.domain.device import DeviceClass
from kernelzoo.store.blocking import execute, fetch_all
from kernelzoo.store.prospects import prospects
from kernelzoo.store.query import Statement
from tests.database.client import Agent, open_agent
from tests.database.conftest import RELAXED, WORKLOAD, Connection, make_candidate
from tests.reports import all_ok, failure, ok
from tests.running import eventually

pytestmark = pytest.mark.usefixtures("job_id")


def lent(answer: Response) -> list[str]:
    assert answer.status_code == 200, answer.text
    return [kernel["candidate"] for kernel in answer.json()["candidates"]]


def stored(db: Connection) -> int:
    row = db.execute("SELECT count(*) FROM measurement").fetchone()
    assert row is not None
    return int(row[0])


def refused(answer: Response, status: int, words: str) -> None:
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    document = answer.json()
    assert document["status"] == status
    assert words in document["detail"]


@pytest.fixture
def agent(http: TestClient) -> Agent:
    return open_agent(http)


@pytest.fixture
def lease(agent: Agent) -> dict[str, Any]:
    answer: dict[str, Any] = agent.lease().json()
    return answer


def test_an_agent_is_lent_compiled_candidates_in_order_of_promise(agent: Agent) -> None:
    expected = [make_candidate(0), make_candidate(1), make_candidate(2, RELAXED)]
    assert lent(agent.lease()) == [candidate.candidate_id for candidate in expected]


def test_a_lease_counts_what_is_left_and_tells_that_compiling_goes_on(
    lease: dict[str, Any],
) -> None:
    assert (lease["unmeasured"], lease["complete"]) == (1, False)
    assert lease["reference"]["candidate"] == make_candidate(0).candidate_id


def test_a_device_without_a_feature_is_lent_no_candidate_that_needs_it(
    http: TestClient,
) -> None:
    agent = open_agent(http, features=["simd128"])
    assert lent(agent.lease()) == [make_candidate(n).candidate_id for n in (0, 1)]


def test_a_candidate_is_not_lent_twice_to_an_identity_while_its_lease_is_open(
    agent: Agent,
) -> None:
    assert len(lent(agent.lease(limit=2))) == 2
    assert len(lent(agent.lease())) == 1
    assert agent.lease().status_code == 204


def test_what_an_agent_left_unanswered_is_lent_again_when_the_lease_expires(
    agent: Agent, db: Connection
) -> None:
    first = lent(agent.lease())
    execute(db, Statement(sql="UPDATE lease SET expires_at = now()"))
    assert lent(agent.lease()) == first


def test_a_long_poll_is_answered_when_a_candidate_is_compiled(agent: Agent, db: Connection) -> None:
    lease = agent.lease().json()
    agent.report(lease, all_ok(lease))

    def compile_last() -> None:
        with db.transaction():
            compile_row(db, make_candidate(3))
            db.execute("NOTIFY kernelzoo_candidates")

    timer = Timer(0.3, compile_last)
    timer.start()
    answer = agent.lease(wait_s=10)
    timer.join()
    assert lent(answer) == [make_candidate(3).candidate_id]
    assert answer.json()["complete"] is True
    assert answer.elapsed.total_seconds() < 1.5, "the notification did not wake the poll"


def test_an_accepted_report_is_stored(agent: Agent, lease: dict[str, Any], db: Connection) -> None:
    answer = agent.report(lease, all_ok(lease))
    assert (answer.status_code, answer.json()) == (202, {"accepted": 3})
    row = db.execute("SELECT best_ns, samples_ns, verdict FROM measurement ORDER BY best_ns")
    assert row.fetchone() == (998.0, [998.0, 998.0 * 1.1, 998.0 * 1.2], "pending")


def test_what_precedes_warm_runs_is_stored_unless_the_samples_contradict_it(
    agent: Agent, lease: dict[str, Any], db: Connection, job_id: int
) -> None:
    told = {"compile_ns": 2e6, "optimise_ns": 3e6, "pack_ns": 0.0, "first_run_ns": 3000.0}
    right, fast, untold = (ok(lease, each["candidate"]) for each in lease["candidates"])
    too_fast = fast | {"preparation": told | {"first_run_ns": 400.0}}
    answer = agent.report(lease, [right | {"preparation": told}, too_fast, untold])
    assert (answer.status_code, answer.json()) == (202, {"accepted": 3})
    rows = db.execute(
        "SELECT candidate_id, compile_ns, optimise_ns, pack_ns, first_run_ns FROM measurement"
    ).fetchall()
    assert {row[0]: row[1:] for row in rows} == {
        right["candidate"]: (2e6, 3e6, 0.0, 3000.0),
        fast["candidate"]: (None,) * 4,
        untold["candidate"]: (None,) * 4,
    }
    ((identity,),) = db.execute("SELECT id FROM identity").fetchall()
    device_class = DeviceClass.parse(agent.device_class)
    asked = prospects(job_id, identity, device_class, cover=2, believed_s=60)
    known = {each.candidate_id: each.relative_preparation for each in fetch_all(db, asked)}
    reference_ns = right["reference_ns"][0]
    beside_runs_ns = 2e6 + 3000.0 - right["samples_ns"][0]
    assert known[right["candidate"]] == pytest.approx(beside_runs_ns / reference_ns)
    assert known[fast["candidate"]] is known[untold["candidate"]] is None


def test_a_lease_names_the_fastest_that_its_identity_measured_before(
    agent: Agent, http: TestClient
) -> None:
    first = agent.lease(limit=2).json()
    assert first["measured"] == []
    slow, fast = (kernel["candidate"] for kernel in first["candidates"])
    agent.report(first, [ok(first, slow, best_ns=900.0), ok(first, fast, best_ns=500.0)])
    again = open_agent(http, identity=agent.identity).lease().json()
    named = [(m["kernel"]["candidate"], m["relative_time"]) for m in again["measured"]]
    assert named == [(fast, 0.25), (slow, 0.45)]
    assert open_agent(http).lease().json()["measured"] == []


def test_a_failure_is_stored_with_its_stage(
    agent: Agent, lease: dict[str, Any], db: Connection
) -> None:
    candidate = lease["candidates"][0]["candidate"]
    assert agent.report(lease, [failure(candidate, "compare")]).status_code == 202
    row = db.execute("SELECT outcome, best_ns, detail FROM measurement").fetchone()
    assert row == ("compare", None, "it went wrong")


def test_a_replayed_report_is_refused_and_changes_nothing(
    agent: Agent, lease: dict[str, Any], db: Connection
) -> None:
    report = all_ok(lease)
    agent.report(lease, report[:1])
    refused(agent.report(lease, report), 409, "was reported before")
    assert stored(db) == 1


def at_once(
    db: Connection, agent: Agent, lease: dict[str, Any], reports: list[list[dict[str, Any]]]
) -> list[int]:
    """Statuses of reports of which each finds the lease held until all have come."""
    with ThreadPoolExecutor() as threads, db.transaction():
        db.execute("SELECT FROM lease FOR UPDATE")
        answers = [threads.submit(agent.report, lease, report) for report in reports]
        eventually(lambda: waiting(db) == len(reports), "reports came")
    return sorted(answer.result().status_code for answer in answers)


def waiting(db: Connection) -> int:
    row = db.execute("SELECT count(DISTINCT pid) FROM pg_locks WHERE NOT granted").fetchone()
    assert row is not None
    return int(row[0])


def test_a_report_that_comes_twice_at_once_is_taken_once(
    agent: Agent, lease: dict[str, Any], db: Connection
) -> None:
    report = all_ok(lease)
    # The same byte for byte would wait for the first one's answer.
    again = [{**measurement, "detail": "again"} for measurement in report]
    assert at_once(db, agent, lease, [report, again]) == [202, 409]
    assert stored(db) == len(report)


def test_a_lease_whose_halves_are_reported_at_once_is_answered(
    agent: Agent, lease: dict[str, Any], db: Connection
) -> None:
    report = all_ok(lease)
    assert at_once(db, agent, lease, [report[:1], report[1:]]) == [202, 202]
    assert db.execute("SELECT answered FROM lease").fetchall() == [(True,)]


def test_an_output_that_is_no_number_is_stored_as_told(
    agent: Agent, lease: dict[str, Any], db: Connection
) -> None:
    one = ok(lease, lent_first := lease["candidates"][0]["candidate"])
    one["sampled_entries"][:3] = [math.nan, math.inf, -0.1]
    body = {"nonce": lease["nonce"], "measurements": [one]}
    answer = agent.http.post(
        f"/v1/leases/{lease['lease']}/measurements",
        content=json.dumps(body),
        headers={**agent.bearer, "Content-Type": "application/json"},
    )
    assert answer.status_code == 202, answer.text
    row = db.execute("SELECT candidate_id, sampled_entries[1:3] FROM measurement").fetchone()
    assert row is not None
    assert (row[0], str(row[1])) == (lent_first, "[nan, inf, -0.1]")


def test_a_report_on_an_expired_lease_is_refused(
    agent: Agent, lease: dict[str, Any], db: Connection
) -> None:
    execute(db, Statement(sql="UPDATE lease SET expires_at = now()"))
    refused(agent.report(lease, all_ok(lease)), 410, "expired")
    assert stored(db) == 0


def test_a_report_with_another_nonce_is_refused(
    agent: Agent, lease: dict[str, Any], db: Connection
) -> None:
    refused(agent.report({**lease, "nonce": "guessed"}, all_ok(lease)), 403, "nonce")
    assert stored(db) == 0


def test_a_report_on_another_agents_lease_is_refused(
    http: TestClient, agent: Agent, lease: dict[str, Any], db: Connection
) -> None:
    refused(open_agent(http).report(lease, all_ok(lease)), 404, "holds no such lease")
    refused(agent.report({**lease, "lease": "999"}, all_ok(lease)), 404, "no such lease")
    assert stored(db) == 0


def test_a_candidate_that_was_not_lent_is_refused_with_the_whole_report(
    agent: Agent, lease: dict[str, Any], db: Connection
) -> None:
    foreign = ok(lease, make_candidate(3).candidate_id)
    refused(agent.report(lease, [*all_ok(lease), foreign]), 422, "is not on this lease")
    assert stored(db) == 0


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"samples_ns": []}, "lacks samples_ns"),
        ({"sampled_entries": [0.0]}, "64 sampled_entries"),
        ({"samples_ns": [-1.0]}, "greater than 0"),
        ({"samples_ns": [1e300]}, "less than or equal"),
        ({"samples_ns": [1.0] * 65}, "at most 64"),
        ({"outcome": "run"}, "reports samples"),
        ({"outcome": "splendid"}, "outcome"),
        ({"candidate": "xyz"}, "candidate"),
        ({"calls_per_sample": "4"}, "calls_per_sample"),
        ({"surprise": 1}, "Extra inputs"),
        ({"detail": "a\x00b"}, "detail"),
        ({"preparation": {"compile_ns": -1.0}}, "compile_ns"),
    ],
)
def test_a_malformed_measurement_is_refused_by_name(
    agent: Agent, lease: dict[str, Any], db: Connection, change: dict[str, Any], words: str
) -> None:
    report = [ok(lease, lease["candidates"][0]["candidate"]) | change]
    refused(agent.report(lease, report), 422, words)
    assert stored(db) == 0


def test_text_that_no_database_stores_is_refused(agent: Agent, lease: dict[str, Any]) -> None:
    measurement = failure(lease["candidates"][0]["candidate"], "run") | {"detail": "\ud800"}
    answer = agent.http.post(
        f"/v1/leases/{lease['lease']}/measurements",
        content=json.dumps({"nonce": lease["nonce"], "measurements": [measurement]}),
        headers={**agent.bearer, "Content-Type": "application/json"},
    )
    refused(answer, 422, "detail")


def test_a_body_that_is_too_large_is_refused(agent: Agent, lease: dict[str, Any]) -> None:
    answer = agent.http.post(
        f"/v1/leases/{lease['lease']}/measurements",
        content=b" " * (1 << 20) + b"{}",
        headers={**agent.bearer, "Content-Type": "application/json"},
    )
    refused(answer, 413, "1048576 bytes")


def test_leases_need_a_session(http: TestClient, agent: Agent) -> None:
    refused(http.post("/v1/leases", json={}), 401, "no valid session token")
    forged = {"Authorization": f"Bearer {agent.token[:-2]}xx"}
    refused(http.post("/v1/leases", json={}, headers=forged), 401, "open a new session")
    swapped = {"Authorization": f"Bearer {agent.identity}"}
    refused(http.post("/v1/leases", json={}, headers=swapped), 401, "no valid session token")


def test_a_ballot_may_only_name_what_its_identity_measured(
    agent: Agent, lease: dict[str, Any]
) -> None:
    agent.report(lease, all_ok(lease)[:1])
    measured, unmeasured = (kernel["candidate"] for kernel in lease["candidates"][:2])
    assert agent.vote(WORKLOAD.key, [measured]).status_code == 202
    refused(agent.vote(WORKLOAD.key, [unmeasured]), 422, "no successful measurement")
    refused(agent.vote(WORKLOAD.key, [measured, measured]), 422, "twice")
    refused(agent.vote("matmul:f32:m2k3n5", [measured]), 422, "no successful measurement")
    refused(agent.vote("matmul:f32:m0k3n5", [measured]), 422, "from 1 to 65536")
