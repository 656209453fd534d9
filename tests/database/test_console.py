"""The console is told these: the zoo as a whole, a key, a job; and what is kept back."""

from typing import Any
from urllib.parse import quote

import pytest
from fastapi.testclient import TestClient

from kernelzoo.domain.device import DeviceClass
from services.aggregator.publishing import Rule
from tests.database.client import OPERATOR, Agent, open_agent
from tests.database.conftest import RELAXED, WORKLOAD, Connection, make_candidate
from tests.database.test_zoo import measure_and_vote
from tests.reports import failure, ok
from workers.aggregating import tally

RANKING = [
    candidate.candidate_id
    for candidate in (make_candidate(2, RELAXED), make_candidate(0), make_candidate(1))
]

pytestmark = pytest.mark.usefixtures("job_id")


def get(http: TestClient, path: str, headers: dict[str, str] | None = None) -> dict[str, Any]:
    answer = http.get(path, headers=headers)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def key_path(device_class: str) -> str:
    return f"/v1/keys/{quote(WORKLOAD.key, safe='')}/{quote(device_class, safe='')}"


def make_strangers(db: Connection) -> None:
    """Tests open their sessions from loopback with the operator's key."""
    db.execute("UPDATE identity SET operated = false")
    db.execute("UPDATE device_class SET strangers = crowd")


@pytest.fixture
def voted(http: TestClient, db: Connection) -> Agent:
    """Two agents of one class; the tests' quorum of a tally is two."""
    agents = open_agent(http), open_agent(http)
    for agent in agents:
        measure_and_vote(agent, db, RANKING)
    return agents[0]


def test_an_empty_zoo_says_so(http: TestClient, owner: Connection) -> None:
    overview = get(http, "/v1/overview")
    assert (overview["workloads"], overview["device_classes"], overview["promotions"]) == (1, 0, [])
    assert get(http, "/v1/keys") == {"keys": [], "total": 0}
    coverage = get(http, "/v1/coverage")
    assert (coverage["classes"], coverage["total_classes"]) == ([], 0)
    owner.execute("TRUNCATE space_point, tuning_job, workload CASCADE")
    assert get(http, "/v1/coverage")["total_workloads"] == 0


def test_the_overview_counts_and_names_the_latest_promotions(
    http: TestClient, voted: Agent
) -> None:
    overview = get(http, "/v1/overview")
    assert overview["agents_recent"] == 2
    assert (overview["confirmed"], overview["provisional"]) == (1, 0)
    latest, first = overview["promotions"]
    assert (latest["version"], latest["state"], latest["device_class"]) == (
        *(2, "confirmed"),
        voted.device_class,
    )
    assert (first["version"], first["reason"], first["previous"]) == (1, "first", None)
    (only,) = http.get("/v1/promotions", params={"limit": 1}).json()
    assert only == latest


def test_keys_are_found_by_workload_and_by_hardware(http: TestClient, voted: Agent) -> None:
    for query in ("", "?workload=MATMUL", "?device=X86", f"?device={voted.device_class[:8]}"):
        found = get(http, f"/v1/keys{query}")
        assert [each["device_class"] for each in found["keys"]] == [voted.device_class], query
        assert found["total"] == 1
    assert get(http, "/v1/keys?workload=softmax")["keys"] == []
    assert get(http, "/v1/keys?device=%25")["keys"] == [], "a search is for text, not a pattern"
    assert get(http, "/v1/keys?offset=1")["keys"] == []
    assert http.get("/v1/keys?limit=201").status_code == 422


def test_a_key_shows_its_candidates_votes_and_history(http: TestClient, voted: Agent) -> None:
    key = get(http, key_path(voted.device_class))
    assert (key["shown"], key["measured"]) == (True, 3)
    assert key["reference"] == make_candidate(0).candidate_id
    times = [each["best_ns"] for each in key["candidates"]]
    assert times == sorted(times)
    votes = {each["candidate"]: each["votes"] for each in key["candidates"]}
    assert [votes[candidate] for candidate in RANKING] == [
        [2, 0, 0, 0, 0],
        [0, 2, 0, 0, 0],
        [0, 0, 2, 0, 0],
    ]
    assert {each["identities"] for each in key["candidates"]} == {2}
    assert [each["version"] for each in key["history"]] == [2, 1]
    told = [(each["reason"], each["served"]) for each in key["history"]]
    assert told == [("quorum", True), ("first", False)]
    assert sum(each["ballots"] for each in key["history"][0]["evidence"]["engines"]) == 2
    assert key["decisions"] == []
    assert key["history"][0]["candidate"] == RANKING[0]


def test_a_key_shows_what_is_denied_to_its_class_and_why_a_version_was_taken_back(
    http: TestClient, db: Connection, voted: Agent
) -> None:
    live = get(http, key_path(voted.device_class))["history"][0]
    body = {"device_class": voted.device_class, "denied": True, "reason": "it crashed a phone"}
    for artifact, device_class in (
        (live["artifact"], voted.device_class),
        (live["artifact"], "0123456789abcdef:r1-0:wasm+simd128"),
    ):
        asked = body | {"artifact": artifact, "device_class": device_class}
        assert http.put("/v1/denied", json=asked, headers=OPERATOR).status_code == 200
    # Two votes are no quorum, so that what was decided stands.
    tally(
        db, WORKLOAD.key, DeviceClass.parse(voted.device_class), Rule(quorum=3, malicious_share=0.2)
    )
    key = get(http, key_path(voted.device_class))
    (decision,) = key["decisions"]
    assert (decision["denied"], decision["evidence"]) == (True, "it crashed a phone")
    latest = key["history"][0]
    assert (latest["reason"], latest["served"]) == ("decided", True)
    assert latest["detail"] == "version 2 is denied: it crashed a phone"
    assert latest["artifact"] != live["artifact"]
    assert get(http, "/v1/overview")["promotions"][0]["detail"] == latest["detail"]


def test_the_newest_jobs_are_listed_up_to_a_limit(http: TestClient, job_id: int) -> None:
    newer = http.post("/v1/jobs", json={"workload": "relu:f32:n64"}, headers=OPERATOR).json()
    assert [each["job"] for each in get(http, "/v1/jobs")["jobs"]] == [newer["job"], job_id]
    assert [each["job"] for each in get(http, "/v1/jobs?limit=1")["jobs"]] == [newer["job"]]
    assert http.get("/v1/jobs?limit=201").status_code == 422


def test_the_coverage_has_a_mark_for_each_workload_of_a_class(
    http: TestClient, voted: Agent
) -> None:
    other = "relu:f32:n64"
    body = {"workload": other, "target": "webgpu"}
    assert http.post("/v1/jobs", json=body, headers=OPERATOR).status_code == 201
    coverage = get(http, "/v1/coverage")
    assert coverage["workloads"] == [WORKLOAD.key, other]
    (row,) = coverage["classes"]
    assert (row["device"]["device_class"], row["marks"]) == (voted.device_class, "c-")
    assert row["device"]["identities"] == 2
    http.post("/v1/jobs", json={"workload": other}, headers=OPERATOR)
    assert get(http, "/v1/coverage")["classes"][0]["marks"] == "cm"
    narrow = get(http, "/v1/coverage?workload=relu&workloads=1&classes=1")
    assert (narrow["workloads"], narrow["total_workloads"]) == ([other], 1)


def test_the_curve_of_a_job_has_each_better_kernel_and_the_failures(
    http: TestClient, job_id: int
) -> None:
    agent = open_agent(http)
    lease = agent.lease().json()
    first, second, third = (kernel["candidate"] for kernel in lease["candidates"])
    for report in (
        [ok(lease, first, 4e6)],
        [failure(second, "run")],
        [ok(lease, third, 2e6)],
    ):
        assert agent.report(lease, report).status_code == 202
    progress = get(http, f"/v1/jobs/{job_id}/progress")
    (curve,) = progress["curves"]
    assert [point["round"] for point in curve["points"]] == [1, 3]
    slow, fast = (point["gflops"] for point in curve["points"])
    assert fast == pytest.approx(2 * slow)
    counts = {each["outcome"]: each["measurements"] for each in curve["outcomes"]}
    assert (counts["ok"], counts["run"], counts["rejected"]) == (2, 1, 0)
    assert http.get("/v1/jobs/99999/progress").status_code == 404


def test_of_few_strangers_only_counts_are_told_but_to_the_operator(
    http: TestClient, db: Connection, voted: Agent, job_id: int
) -> None:
    make_strangers(db)
    key = get(http, key_path(voted.device_class))
    assert (key["shown"], key["candidates"], key["measured"]) == (False, [], 3)
    (curve,) = get(http, f"/v1/jobs/{job_id}/progress")["curves"]
    assert (curve["shown"], curve["points"], curve["candidates"]) == (False, [], 3)
    assert len(get(http, key_path(voted.device_class), OPERATOR)["candidates"]) == 3
    (curve,) = get(http, f"/v1/jobs/{job_id}/progress", OPERATOR)["curves"]
    assert curve["points"] != []


def test_from_the_quorum_on_strangers_are_a_crowd(
    http: TestClient, db: Connection, voted: Agent
) -> None:
    for _ in range(3):
        open_agent(http)
    make_strangers(db)
    key = get(http, key_path(voted.device_class))
    assert (key["device"]["identities"], key["shown"]) == (5, True)


def test_a_key_that_nobody_has_met_is_refused_with_what_to_do(http: TestClient) -> None:
    answer = http.get(key_path("0123456789abcdef:r1-0:wasm+simd128"))
    assert answer.status_code == 404
    assert "GET /v1/keys" in answer.json()["detail"]
    assert http.get(f"/v1/keys/{WORKLOAD.key}/nonsense").status_code == 422
