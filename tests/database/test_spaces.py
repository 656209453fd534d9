"""Spaces by GPU model: whose jobs an agent works on, and what two spaces share."""

from typing import Any

import pytest
from fastapi.testclient import TestClient

from fixtures.rows import compile_row, plan
from kernelzoo.domain.candidate import Candidate
from kernelzoo.domain.device import DeviceClass
from kernelzoo.domain.target import TargetKind
from kernelzoo.store import candidates, tuning
from kernelzoo.store.blocking import execute, fetch_all, fetch_one
from services.aggregator.publishing import Rule
from tests.database.client import GPU, OPERATOR, Agent, open_agent
from tests.database.conftest import WORKLOAD, Connection, make_candidate
from tests.database.strangers import Crowd, more
from tests.reports import all_ok, failure
from tests.running import eventually
from workers.aggregating import tally, verify_lease

STRANGER = {**GPU["hardware"], "gpu_vendor": "acme", "gpu_architecture": "unheard-of"}


def gpu_candidate(tile: int, *requires: str) -> Candidate:
    return make_candidate(tile, requires, TargetKind.WEBGPU)


def open_gpu_agent(http: TestClient, **changes: Any) -> Agent:
    return open_agent(http, **{**GPU, **changes})


def jobs(http: TestClient) -> dict[str, dict[str, Any]]:
    return {job["space"]: job for job in http.get("/v1/jobs").json()["jobs"]}


def lent(agent: Agent) -> list[str]:
    answer = agent.lease()
    assert answer.status_code == 200, answer.text
    return [kernel["candidate"] for kernel in answer.json()["candidates"]]


@pytest.fixture
def any_job(http: TestClient, db: Connection) -> int:
    """The job of GPUs without a known model: two candidates, compiled."""
    body = {"workload": WORKLOAD.key, "target": "webgpu"}
    opened = http.post("/v1/jobs", json=body, headers=OPERATOR).json()
    space = [gpu_candidate(0), gpu_candidate(1)]
    plan(db, opened["job"], space)
    for candidate in space:
        compile_row(db, candidate)
    return int(opened["job"])


def model_job(http: TestClient, db: Connection) -> int:
    """The job of SwiftShader's space, opened by its first agent; shares candidate 1 with any."""
    assert open_gpu_agent(http).lease().status_code == 204
    job = int(jobs(http)["swiftshader"]["job"])
    assert plan(db, job, [gpu_candidate(1), gpu_candidate(2, "workgroup-memory-48k")]) == [
        gpu_candidate(2).candidate_id
    ]
    compile_row(db, gpu_candidate(2, "workgroup-memory-48k"))
    return job


def test_a_webgpu_job_is_registered_for_gpus_of_any_model(http: TestClient, any_job: int) -> None:
    assert {space: job["job"] for space, job in jobs(http).items()} == {"any": any_job}
    body = {"workload": WORKLOAD.key, "target": "webgpu"}
    again = http.post("/v1/jobs", json=body, headers=OPERATOR)
    assert (again.status_code, again.json()["job"]) == (200, any_job)


@pytest.mark.usefixtures("any_job")
def test_the_first_agent_of_a_model_opens_its_jobs_and_the_next_opens_none(
    http: TestClient, db: Connection
) -> None:
    first, second = open_gpu_agent(http), open_gpu_agent(http)
    assert first.lease().status_code == 204
    assert second.lease().status_code == 204
    states = {space: job["state"] for space, job in jobs(http).items()}
    assert states == {"any": "planned", "swiftshader": "waiting"}
    assert db.execute("SELECT max(id) FROM tuning_job").fetchone() == (2,)


@pytest.mark.usefixtures("any_job")
def test_an_agent_without_a_known_model_works_on_the_job_of_any(http: TestClient) -> None:
    agent = open_gpu_agent(http, hardware=STRANGER)
    assert lent(agent) == [gpu_candidate(n).candidate_id for n in (0, 1)]
    assert set(jobs(http)) == {"any"}


@pytest.mark.usefixtures("any_job")
def test_an_agent_for_wasm_opens_no_job_and_is_lent_no_kernel_of_webgpu(http: TestClient) -> None:
    assert open_agent(http, hardware=GPU["hardware"]).lease().status_code == 204
    assert set(jobs(http)) == {"any"}


@pytest.mark.usefixtures("any_job")
def test_a_job_that_could_not_be_planned_is_opened_for_no_model(
    http: TestClient, db: Connection, any_job: int
) -> None:
    execute(db, tuning.job_failed(any_job, "no space"))
    assert open_gpu_agent(http).lease().status_code == 204
    assert set(jobs(http)) == {"any"}


@pytest.mark.usefixtures("any_job")
def test_a_limit_is_a_feature_that_a_candidate_may_require(
    http: TestClient, db: Connection
) -> None:
    model_job(http, db)
    assert lent(open_gpu_agent(http)) == [gpu_candidate(1).candidate_id]
    large = open_gpu_agent(http, features=["workgroup-memory-32k", "workgroup-memory-48k"])
    assert lent(large) == [gpu_candidate(n).candidate_id for n in (1, 2)]


@pytest.mark.usefixtures("any_job")
def test_a_candidate_of_two_spaces_is_one_row_that_is_compiled_once(
    http: TestClient, db: Connection
) -> None:
    model_job(http, db)
    assert db.execute("SELECT count(*) FROM candidate").fetchone() == (3,)
    assert fetch_one(db, candidates.claim(gpu_candidate(1).candidate_id)) is None
    counted = {space: (job["candidates"], job["compiled"]) for space, job in jobs(http).items()}
    assert counted == {"any": (2, 2), "swiftshader": (2, 2)}


@pytest.mark.usefixtures("any_job")
def test_progress_counts_the_measurements_and_ballots_of_the_jobs_own_space(
    http: TestClient, db: Connection
) -> None:
    model_job(http, db)
    agent = open_gpu_agent(http)
    lease = agent.lease().json()
    agent.report(lease, all_ok(lease))
    agent.vote(WORKLOAD.key, [gpu_candidate(1).candidate_id])
    counted = {
        space: (job["measurements"], job["agents"], job["ballots"])
        for space, job in jobs(http).items()
    }
    assert counted == {"any": (0, 0, 0), "swiftshader": (1, 1, 1)}


@pytest.mark.usefixtures("any_job")
def test_a_restarted_agent_is_told_what_it_measured_in_its_space(
    http: TestClient, db: Connection
) -> None:
    model_job(http, db)
    features = ["workgroup-memory-48k"]
    agent = open_gpu_agent(http, features=features)
    lease = agent.lease(limit=1).json()
    agent.report(lease, all_ok(lease))
    again = open_gpu_agent(http, identity=agent.identity, features=features)
    (measured,) = again.lease().json()["measured"]
    assert measured["kernel"]["candidate"] == gpu_candidate(1).candidate_id


@pytest.mark.usefixtures("any_job")
def test_the_default_is_of_any_gpu_until_the_space_of_the_model_is_compiled(
    http: TestClient, db: Connection
) -> None:
    agent = open_gpu_agent(http)
    unknown = agent.device_class.replace(agent.device_class[:16], "0" * 16)

    def default(device_class: str) -> str:
        (entry,) = http.get(f"/v1/zoo/{WORKLOAD.key}/{device_class}").json()["entries"]
        assert entry["wasm"] is None
        return str(entry["webgpu"]["kernel"]["candidate"])

    assert default(agent.device_class) == gpu_candidate(0).candidate_id
    model_job(http, db)
    db.execute("NOTIFY kernelzoo_zoo")
    own = gpu_candidate(1).candidate_id
    eventually(lambda: default(agent.device_class) == own, "the default of the model")
    assert default(unknown) == gpu_candidate(0).candidate_id


@pytest.mark.usefixtures("any_job")
def test_nothing_is_lent_before_the_models_own_reference_is_compiled(
    http: TestClient, db: Connection
) -> None:
    assert open_gpu_agent(http).lease().status_code == 204
    job = int(jobs(http)["swiftshader"]["job"])
    plan(db, job, [gpu_candidate(5), gpu_candidate(1)])
    assert open_gpu_agent(http).lease().status_code == 204
    compile_row(db, gpu_candidate(5))
    lease = open_gpu_agent(http).lease().json()
    assert lease["reference"]["candidate"] == gpu_candidate(5).candidate_id


@pytest.mark.usefixtures("any_job")
def test_a_ballot_of_a_model_is_tallied_against_the_default_of_its_space(
    http: TestClient, db: Connection
) -> None:
    model_job(http, db)
    agent = open_gpu_agent(http, features=["workgroup-memory-48k"])
    lease = agent.lease().json()
    agent.report(lease, all_ok(lease))
    agent.vote(WORKLOAD.key, [gpu_candidate(2).candidate_id])
    verify_lease(db, int(lease["lease"]))
    tally(
        db, WORKLOAD.key, DeviceClass.parse(agent.device_class), Rule(quorum=1, malicious_share=0)
    )
    (listed,) = http.get("/v1/zoo").json()["entries"]
    assert (listed["target"], listed["state"]) == ("webgpu", "confirmed")
    assert listed["candidate"] == gpu_candidate(2).candidate_id
    assert listed["device_class"] == agent.device_class


@pytest.mark.usefixtures("any_job")
@pytest.mark.parametrize("stage", ["validate", "compile", "run", "compare", "timeout"])
def test_a_lost_device_a_hang_or_a_wrong_result_is_a_measurement_with_its_stage(
    http: TestClient, db: Connection, stage: str
) -> None:
    agent = open_gpu_agent(http, hardware=STRANGER)
    lease = agent.lease(limit=1).json()
    reported = failure(lease["candidates"][0]["candidate"], stage)
    assert agent.report(lease, [reported]).status_code == 202
    row = db.execute("SELECT device_class, outcome, best_ns FROM measurement").fetchone()
    assert row == (agent.device_class, stage, None)


@pytest.mark.usefixtures("any_job")
def test_requeueing_names_a_stalled_candidate_of_two_spaces_once(
    http: TestClient, db: Connection
) -> None:
    assert open_gpu_agent(http).lease().status_code == 204
    job = int(jobs(http)["swiftshader"]["job"])
    db.execute("UPDATE candidate SET state = 'waiting', artifact_sha256 = NULL, manifest = NULL")
    plan(db, job, [gpu_candidate(1), gpu_candidate(2)])
    db.execute("UPDATE candidate SET requeued_at = now() - interval '1 minute'")
    requeued = fetch_all(db, candidates.requeue_waiting(5, 10))
    in_order = sorted(requeued, key=lambda row: (row.job_id, row.ordinal))
    expected = [gpu_candidate(n).candidate_id for n in (0, 1, 2)]
    assert [row.candidate_id for row in in_order] == expected
    assert fetch_all(db, candidates.requeue_waiting(5, 10)) == []


def test_a_device_has_the_limits_of_its_core_and_of_its_gpu(http: TestClient) -> None:
    open_agent(http, hardware=GPU["hardware"], peak_gflops=59.0)
    open_gpu_agent(http)
    open_gpu_agent(http, hardware=STRANGER)
    seen = http.get("/v1/devices").json()["devices"]
    found = {
        each["gpu_vendor"]: (each["gpu_model"], each["core_gflops"], each["gpu_gflops"])
        for each in seen
    }
    assert found == {"google": ("swiftshader", 59.0, 32.0), "acme": ("any", None, 32.0)}


@pytest.mark.usefixtures("any_job")
def test_a_network_that_claims_every_gpu_opens_jobs_of_few(http: TestClient, come: Crowd) -> None:
    """Attack: sessions of invented GPUs, each of which opens a job for every workload.

    What it cost before: 20 models of one network opened 20 jobs for each workload.
    """
    architectures = ("maxwell", "pascal", "turing", "ampere", "lovelace", "blackwell")
    claims = [
        {**GPU["hardware"], "gpu_vendor": "nvidia", "gpu_architecture": each}
        for each in architectures
    ]
    attacker = come(1, **{**GPU, "hardware": claims[0]})
    attacker.lease()
    for hardware in claims[1:]:
        more(attacker, **{**GPU, "hardware": hardware, "identity": attacker.identity}).lease()
    assert len(jobs(http)) == 1 + tuning.MODELS_OF_NETWORK
    # Another network, or an agent of the operator, opens the others.
    come(2, **{**GPU, "hardware": claims[-1]}).lease()
    open_gpu_agent(http, hardware=claims[-2]).lease()
    assert len(jobs(http)) == 1 + tuning.MODELS_OF_NETWORK + 2
