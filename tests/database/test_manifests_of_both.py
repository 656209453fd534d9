"""Manifests that hold the kernels of wasm and of webgpu, and say which is faster here."""

from typing import Any

import pytest
from fastapi.testclient import TestClient

from fixtures.rows import compile_row, plan
from kernelzoo.domain.device import DeviceClass
from kernelzoo.domain.target import MEASURED, TargetKind
from kernelzoo.settings import Settings
from kernelzoo.store import tuning
from kernelzoo.store.blocking import execute, fetch_one
from services.aggregator.publishing import Rule
from tests.database.client import GPU, Agent, open_agent
from tests.database.conftest import WORKLOAD, Connection, make_candidate
from tests.reports import ok
from workers.aggregating import tally, verify_lease

QUORUM = 2
UNKNOWN_GPU = {**GPU["hardware"], "gpu_vendor": "acme", "gpu_architecture": "unheard-of"}
WASM_CLASS = "0123456789abcdef:r1-0:wasm+simd128"
GPU_CLASS = "0123456789abcdef:r101-0:webgpu"


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return settings.model_copy(update={"quorum": QUORUM})


@pytest.fixture
def kernels(db: Connection) -> dict[TargetKind, str]:
    """One compiled candidate of each target."""
    execute(db, tuning.register_workload(WORKLOAD))
    for target in MEASURED:
        opened = fetch_one(db, tuning.open_job(WORKLOAD.key, target))
        assert opened is not None
        candidate = make_candidate(0, (), target)
        plan(db, opened.id, [candidate])
        compile_row(db, candidate)
    return {target: make_candidate(0, (), target).candidate_id for target in MEASURED}


def pair(http: TestClient) -> tuple[Agent, Agent]:
    """The two agents of one browser: the same identity and hardware, one for each target."""
    cpu = open_agent(http, hardware=UNKNOWN_GPU)
    gpu = open_agent(http, identity=cpu.identity, **{**GPU, "hardware": UNKNOWN_GPU})
    return cpu, gpu


def measure(db: Connection, agent: Agent, best_ns: float, *, wrong: bool = False) -> None:
    lease = agent.lease().json()
    (kernel,) = lease["candidates"]
    report = ok(lease, kernel["candidate"], best_ns)
    if wrong:
        report["sampled_entries"][0] += 1
    assert agent.report(lease, [report]).status_code == 202
    verify_lease(db, int(lease["lease"]))


def entry_of_both(http: TestClient, cpu: Agent, gpu: Agent) -> dict[str, Any]:
    answer = http.get(f"/v1/zoo/{WORKLOAD.key}/{cpu.device_class}/{gpu.device_class}")
    assert answer.status_code == 200, answer.text
    (entry,) = answer.json()["entries"]
    return dict(entry)


def test_one_manifest_has_the_kernels_of_both_targets(
    http: TestClient, kernels: dict[TargetKind, str]
) -> None:
    answer = http.get(f"/v1/zoo/{WORKLOAD.key}/{WASM_CLASS}/{GPU_CLASS}").json()
    assert answer["device_classes"] == [WASM_CLASS, GPU_CLASS]
    (entry,) = answer["entries"]
    assert {target: entry[target]["kernel"]["candidate"] for target in MEASURED} == kernels
    assert entry["webgpu"]["kernel"]["url"].endswith(".webgpu")
    assert [entry[target]["timing"] for target in MEASURED] == [None, None]
    assert entry["advice"] == {"target": "wasm", "basis": "none"}


@pytest.mark.usefixtures("kernels")
def test_a_manifest_for_one_target_advises_that_one(http: TestClient) -> None:
    (entry,) = http.get(f"/v1/zoo/{WORKLOAD.key}/{GPU_CLASS}").json()["entries"]
    assert entry["wasm"] is None
    assert entry["advice"] == {"target": "webgpu", "basis": "none"}


@pytest.mark.usefixtures("kernels")
def test_the_faster_target_is_advised_with_its_evidence_once_a_quorum_has_timed_both(
    http: TestClient, db: Connection
) -> None:
    first, second = pair(http), pair(http)
    for agents, times_ns in ((first, (900.0, 500.0)), (second, (1100.0, 300.0))):
        for agent, best_ns in zip(agents, times_ns, strict=True):
            measure(db, agent, best_ns)
            assert agent.vote(WORKLOAD.key, [ballot_line(agent)]).status_code == 202
            tally(
                db,
                WORKLOAD.key,
                DeviceClass.parse(agent.device_class),
                Rule(quorum=QUORUM, malicious_share=0),
            )
    entry = entry_of_both(http, *first)
    assert entry["advice"] == {"target": "webgpu", "basis": "measured"}
    assert entry["wasm"]["timing"] == {"best_ns": 1000.0, "identities": 2}
    assert entry["webgpu"]["timing"] == {"best_ns": 400.0, "identities": 2}


def ballot_line(agent: Agent) -> str:
    target = TargetKind(agent.device_class.split(":")[2].split("+")[0])
    return make_candidate(0, (), target).candidate_id


@pytest.mark.usefixtures("kernels")
def test_a_rejected_measurement_is_no_evidence(http: TestClient, db: Connection) -> None:
    agents = pair(http)
    measure(db, agents[1], 1.0, wrong=True)
    assert entry_of_both(http, *agents)["webgpu"]["timing"] is None


@pytest.mark.parametrize(
    ("classes", "words"),
    [
        (f"{GPU_CLASS}/{WASM_CLASS}", "wasm and of webgpu, in this order"),
        (f"{WASM_CLASS}/{WASM_CLASS}", "wasm and of webgpu, in this order"),
        (f"{WASM_CLASS}/{GPU_CLASS.replace('0123', 'ffff')}", "device ids differ"),
        (f"{WASM_CLASS}/webgpu", "device class 'webgpu' is malformed"),
    ],
)
def test_an_odd_pair_of_classes_is_refused(http: TestClient, classes: str, words: str) -> None:
    answer = http.get(f"/v1/zoo/{WORKLOAD.key}/{classes}")
    assert answer.status_code == 422
    assert words in answer.json()["detail"]
