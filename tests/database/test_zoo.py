"""From ballots to what a page is served."""

from typing import Any

import pytest
from fastapi.testclient import TestClient

from kernelzoo.domain.artifact import ABI_VERSION, Artifact, ArtifactManifest
from kernelzoo.domain.device import DeviceClass
from kernelzoo.domain.target import TargetKind
from kernelzoo.domain.workload import Workload
from kernelzoo.store import candidates, tuning
from kernelzoo.store.blocking import execute, fetch_all
from services.aggregator.publishing import Rule
from tests.database.client import OPERATOR, Agent, open_agent
from tests.database.conftest import RELAXED, WORKLOAD, Connection, make_candidate
from tests.reports import all_ok, ok
from tests.running import eventually
from workers.aggregating import tally, verify_lease

pytestmark = pytest.mark.usefixtures("job_id")

QUORUM = 2
RULE = Rule(quorum=QUORUM, malicious_share=0)


def measure_and_vote(agent: Agent, db: Connection, ranking: list[str]) -> None:
    """One honest agent: measures all, files a ballot; then the aggregate tasks run."""
    leases = []
    while (answer := agent.lease()).status_code == 200:
        leases.append(answer.json())
        assert agent.report(leases[-1], all_ok(leases[-1])).status_code == 202
    assert agent.vote(WORKLOAD.key, ranking).status_code == 202
    for lease in leases:
        (job,) = verify_lease(db, int(lease["lease"]))
        assert job.arguments == (WORKLOAD.key, agent.device_class)
    tally(db, WORKLOAD.key, DeviceClass.parse(agent.device_class), RULE)


def manifest_entry(http: TestClient, device_class: str) -> dict[str, Any]:
    """Returns what wasm is served."""
    answer = http.get(f"/v1/zoo/{WORKLOAD.key}/{device_class}")
    assert answer.status_code == 200, answer.text
    (entry,) = answer.json()["entries"]
    return dict(entry["wasm"])


@pytest.fixture
def ranking() -> list[str]:
    """Candidate 2 first, then 0, then 1."""
    made = (make_candidate(2, RELAXED), make_candidate(0), make_candidate(1))
    return [candidate.candidate_id for candidate in made]


def test_a_device_unknown_to_the_zoo_gets_the_most_promising_kernel_it_can_run(
    http: TestClient,
) -> None:
    entry = manifest_entry(http, "0123456789abcdef:r1-0:wasm+simd128")
    assert entry["level"] == "default"
    assert entry["kernel"] == entry["fallback"]
    assert entry["kernel"]["candidate"] == make_candidate(0).candidate_id
    assert (entry["state"], entry["version"], entry["evidence"]) == (None, None, None)


def test_a_quorum_of_ballots_confirms_the_winner_and_serves_it(
    http: TestClient, db: Connection, ranking: list[str]
) -> None:
    first, second = open_agent(http), open_agent(http)
    measure_and_vote(first, db, ranking)
    (listed,) = http.get("/v1/zoo").json()["entries"]
    assert (listed["state"], listed["version"]) == ("provisional", 1)
    assert manifest_entry(http, first.device_class)["level"] == "default"

    measure_and_vote(second, db, ranking)
    # The gateway forgets the manifest that it has answered when it hears of the change.
    eventually(
        lambda: manifest_entry(http, first.device_class)["level"] == "exact", "an exact answer"
    )
    entry = manifest_entry(http, first.device_class)
    assert (entry["level"], entry["state"], entry["version"]) == ("exact", "confirmed", 2)
    assert entry["kernel"]["candidate"] == ranking[0]
    assert entry["evidence"] == {
        "ballots": 2,
        "weight": 10,
        "total_weight": 24,
        "relative_time": 0.5,
        "engines": [{"name": "Chromium", "major": 156, "ballots": 2}],
        "rank": 1,
        "spread": 0.0,
    }
    history = db.execute("SELECT version, state FROM zoo_entry ORDER BY version").fetchall()
    assert history == [(1, "retired"), (2, "confirmed")]


def test_tallying_again_changes_nothing_but_the_evidence(
    http: TestClient, db: Connection, ranking: list[str]
) -> None:
    agent = open_agent(http)
    measure_and_vote(agent, db, ranking)
    before = db.execute("SELECT * FROM zoo_entry").fetchall()
    tally(db, WORKLOAD.key, DeviceClass.parse(agent.device_class), RULE)
    assert db.execute("SELECT * FROM zoo_entry").fetchall() == before


def test_a_second_ballot_of_an_identity_replaces_its_first(
    http: TestClient, db: Connection, ranking: list[str]
) -> None:
    agent = open_agent(http)
    measure_and_vote(agent, db, ranking)
    agent.vote(WORKLOAD.key, ranking[::-1])
    tally(db, WORKLOAD.key, DeviceClass.parse(agent.device_class), RULE)
    (listed,) = http.get("/v1/zoo").json()["entries"]
    assert listed["candidate"] == ranking[-1]
    assert listed["evidence"]["ballots"] == 1


def test_a_kernel_that_computes_wrongly_cannot_win(
    http: TestClient, db: Connection, ranking: list[str]
) -> None:
    agent = open_agent(http)
    lease = agent.lease().json()
    report = [ok(lease, kernel["candidate"]) for kernel in lease["candidates"]]
    wrong = next(item for item in report if item["candidate"] == ranking[0])
    wrong["sampled_entries"][63] += 0.01
    agent.report(lease, report)
    agent.vote(WORKLOAD.key, ranking)
    verify_lease(db, int(lease["lease"]))
    tally(db, WORKLOAD.key, DeviceClass.parse(agent.device_class), RULE)
    (listed,) = http.get("/v1/zoo").json()["entries"]
    assert listed["candidate"] == ranking[1]
    row = db.execute("SELECT detail FROM measurement WHERE verdict = 'rejected'").fetchone()
    assert row is not None
    assert "off by 0.01" in row[0]


def test_ballots_are_not_counted_before_their_measurements_are_verified(
    http: TestClient, db: Connection, ranking: list[str]
) -> None:
    agent = open_agent(http)
    lease = agent.lease().json()
    agent.report(lease, all_ok(lease))
    agent.vote(WORKLOAD.key, ranking)
    tally(db, WORKLOAD.key, DeviceClass.parse(agent.device_class), RULE)
    assert http.get("/v1/zoo").json()["entries"] == []


def test_device_classes_do_not_vote_for_one_another(
    http: TestClient, db: Connection, ranking: list[str]
) -> None:
    for rho in ("r1-0", "r1-1"):
        measure_and_vote(open_agent(http, rho=rho), db, ranking)
    listed = http.get("/v1/zoo").json()["entries"]
    assert {entry["state"] for entry in listed} == {"provisional"}
    assert len(listed) == 2


@pytest.mark.usefixtures("one_issue_time")
def test_a_manifest_is_answered_304_until_the_zoo_changes(
    http: TestClient, db: Connection, ranking: list[str]
) -> None:
    agents = [open_agent(http) for _ in range(QUORUM)]
    path = f"/v1/zoo/{WORKLOAD.key}/{agents[0].device_class}"
    first = http.get(path)
    assert "stale-while-revalidate" in first.headers["cache-control"]
    etag = {"If-None-Match": first.headers["etag"]}
    assert http.get(path, headers=etag).status_code == 304
    for agent in agents:
        measure_and_vote(agent, db, ranking)
    eventually(lambda: http.get(path, headers=etag).status_code == 200, "a new manifest")
    assert http.get(path).json()["entries"][0]["wasm"]["level"] == "exact"


def test_a_workload_set_is_answered_in_one_manifest(http: TestClient) -> None:
    other = "batch_matmul:f32:b2m3k4n5"
    body = {"workloads": [other, WORKLOAD.key, other]}
    put = http.put("/v1/sets/my-model", json=body, headers=OPERATOR)
    assert put.json() == {"name": "my-model", "workloads": [other, WORKLOAD.key]}
    answer = http.get("/v1/zoo/my-model/0123456789abcdef:r1-0:wasm+simd128").json()
    assert [entry["workload"] for entry in answer["entries"]] == [WORKLOAD.key]
    assert answer["missing"] == [other]


def test_a_workload_brings_the_one_with_constant_weights_along(
    http: TestClient, db: Connection
) -> None:
    constant = f"{WORKLOAD.key}:constant=b"
    execute(db, tuning.register_workload(Workload.parse(constant)))
    device_class = "0123456789abcdef:r1-0:wasm+simd128"
    both = http.get(f"/v1/zoo/{WORKLOAD.key}/{device_class}").json()
    assert [entry["workload"] for entry in both["entries"]] == [WORKLOAD.key]
    assert both["missing"] == [constant]
    alone = http.get(f"/v1/zoo/{constant}/{device_class}").json()
    assert (alone["entries"], alone["missing"]) == ([], [constant])


def test_candidates_of_the_same_bytes_keep_their_own_manifests(
    http: TestClient, db: Connection
) -> None:
    """The kernels of `matmul` and `matmul_nt` that want b in panels are so."""
    candidate = make_candidate(3)
    first = manifest_entry(http, "0123456789abcdef:r1-0:wasm+simd128")["kernel"]
    manifest = ArtifactManifest(
        abi=ABI_VERSION,
        target=TargetKind.WASM,
        requires=(),
        tensors=WORKLOAD.tensors[1:],
        scratch_bytes=64,
        range_extent=7,
    )
    same_bytes = Artifact.of(make_candidate(0).candidate_id.encode(), manifest)
    execute(db, candidates.store_artifact(same_bytes))
    execute(db, candidates.compiled(candidate.candidate_id, same_bytes, 1))
    rows = fetch_all(db, candidates.kernels([first["candidate"], candidate.candidate_id]))
    assert [row.sha256 for row in rows] == [first["sha256"], first["sha256"]]
    assert [row.manifest.range_extent for row in rows] == [1, 7]


def test_artifacts_are_immutable_and_readable_from_any_origin(
    http: TestClient,
) -> None:
    entry = manifest_entry(http, "0123456789abcdef:r1-0:wasm+simd128")
    answer = http.get(entry["kernel"]["url"])
    assert answer.content == make_candidate(0).candidate_id.encode()
    assert answer.headers["content-type"] == "application/wasm"
    assert answer.headers["cache-control"] == "public, max-age=31536000, immutable"
    assert answer.headers["access-control-allow-origin"] == "*"
    assert answer.headers["cross-origin-resource-policy"] == "cross-origin"


@pytest.mark.parametrize(
    ("path", "status", "words"),
    [
        ("/v1/zoo/nothing/0123456789abcdef:r1-0:wasm", 404, "kernelzoo tune"),
        ("/v1/zoo/nothing/0123:r1-0:wasm", 422, "device class '0123:r1-0:wasm' is malformed"),
        ("/v1/zoo/nothing/0123456789abcdef:r1-0:cuda", 422, "target 'cuda' is unknown"),
        (f"/v1/artifacts/{'0' * 64}.wasm", 404, "no artifact"),
        ("/v1/artifacts/xyz.wasm", 422, "sha256"),
        (f"/v1/artifacts/{'0' * 64}.exe", 422, "target"),
        ("/v1/nothing", 404, "Not Found"),
        ("/v1/zoo/%00/0123456789abcdef:r1-0:wasm", 422, "name"),
        ("/v1/zoo?workload=%00", 422, "workload"),
        ("/v1/jobs?workload=%00", 422, "workload"),
    ],
)
def test_a_wrong_address_is_answered_with_what_to_do(
    http: TestClient, path: str, status: int, words: str
) -> None:
    answer = http.get(path)
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/problem+json"
    assert words in answer.json()["detail"]


def test_progress_counts_what_happened(
    http: TestClient, db: Connection, ranking: list[str]
) -> None:
    measure_and_vote(open_agent(http), db, ranking)
    (job,) = http.get("/v1/jobs").json()["jobs"]
    counted = {name: job[name] for name in ("candidates", "compiled", "measurements", "ballots")}
    assert counted == {"candidates": 4, "compiled": 3, "measurements": 3, "ballots": 1}
    assert (job["agents"], job["compile_ms_median"], job["best_ns"]) == (1, 3.0, 998.0)
