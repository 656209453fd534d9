"""A class is served something for a workload on which it has not voted."""

import json
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

import pytest
from fastapi.testclient import TestClient

from fixtures.rows import compile_row, plan
from kernelzoo.domain.candidate import Candidate
from kernelzoo.domain.device import DeviceClass, Hardware
from kernelzoo.domain.target import TargetKind
from kernelzoo.domain.trust import Trust
from kernelzoo.domain.workload import Workload
from kernelzoo.settings import Settings
from kernelzoo.store import chain, orders, tuning
from kernelzoo.store.blocking import execute, fetch_all, fetch_one
from services.aggregator.publishing import Rule
from tests.database.client import GPU, SESSION, Agent, open_agent
from tests.database.conftest import WORKLOAD, Connection, make_candidate
from tests.database.rows_read import rows_read
from tests.reports import ok
from tests.running import eventually
from workers.aggregating import tally, verify_lease
from workers.families import aggregate_by_family

RULE = Rule(quorum=1, malicious_share=0)
NEVER_SEEN = "0123456789abcdef"
SIMD = "wasm+simd128"
FIRST, SECOND, THIRD = (make_candidate(tile) for tile in range(3))


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return settings.model_copy(update={"quorum": RULE.quorum})


@pytest.fixture(autouse=True)
def job_id(db: Connection) -> int:
    """Three compiled candidates, the first of which is the default."""
    return open_job(db, [FIRST, SECOND, THIRD])


def open_job(db: Connection, space: list[Candidate]) -> int:
    workload, target = space[0].workload, space[0].target
    execute(db, tuning.register_workload(workload))
    opened = fetch_one(db, tuning.open_job(workload.key, target))
    assert opened is not None
    plan(db, opened.id, space)
    for candidate in space:
        compile_row(db, candidate)
    return opened.id


def on(**told: Any) -> dict[str, Any]:
    """The session of an agent on such hardware, with the features of `SIMD`."""
    return {"features": ["simd128"], "hardware": {**SESSION["hardware"], **told}}


def vote(
    db: Connection, agent: Agent, times_ns: Mapping[Candidate, float], rule: Rule = RULE
) -> None:
    """The agent measures these candidates, the reference taking 2,000 ns, and ranks them."""
    left = {each.candidate_id: time for each, time in times_ns.items()}
    while left:
        found = agent.lease()
        assert found.status_code == 200, f"never lent: {left}"
        lease = found.json()
        lent = {kernel["candidate"] for kernel in lease["candidates"]} & set(left)
        report = [ok(lease, each, left.pop(each)) for each in sorted(lent)]
        if report:
            assert agent.report(lease, report).status_code == 202
            verify_lease(db, int(lease["lease"]))
    ranking = sorted(times_ns, key=lambda each: times_ns[each])
    workload = ranking[0].workload.key
    assert agent.vote(workload, [each.candidate_id for each in ranking]).status_code == 202
    tally(db, workload, DeviceClass.parse(agent.device_class), rule)


def served(
    http: TestClient,
    device_class: str,
    *,
    hardware: Hardware | None = None,
    workload: Workload = WORKLOAD,
    target: TargetKind = TargetKind.WASM,
) -> dict[str, Any]:

    told = {"hardware": json.dumps(asdict(hardware))} if hardware else {}
    answer = http.get(f"/v1/zoo/{workload.key}/{device_class}", params=told)
    assert answer.status_code == 200, answer.text
    (entry,) = answer.json()["entries"]
    return dict(entry[target])


def test_another_class_of_the_same_device_is_asked_first_and_the_nearest_of_them(
    http: TestClient, db: Connection
) -> None:
    near, far = (open_agent(http, **on(), rho=rho) for rho in ("r1-011", "r1-100"))
    vote(db, near, {SECOND: 1000.0})
    vote(db, far, {THIRD: 1000.0})
    aggregate_by_family(db, RULE)
    device_id = near.device_class.split(":")[0]
    entry = served(http, f"{device_id}:r1-111:{SIMD}")
    assert (entry["level"], entry["kernel"]["candidate"]) == ("device", SECOND.candidate_id)
    assert entry["grounds"] == {
        "identities": 1,
        "classes": 1,
        "relative_time": None,
        "rho_distance": 1,
        "neighbour": None,
    }
    assert (entry["state"], entry["version"], entry["evidence"]) == (None, None, None)
    assert entry["fallback"]["candidate"] == FIRST.candidate_id
    assert served(http, f"{device_id}:r1-000:{SIMD}")["kernel"]["candidate"] == THIRD.candidate_id


def test_an_architecture_serves_what_loses_least_on_most_of_its_classes(
    http: TestClient, db: Connection
) -> None:
    """SECOND and THIRD each win somewhere; THIRD loses less where it does not."""
    for cores, times in ((2, {SECOND: 500.0, THIRD: 550.0}), (4, {SECOND: 1000.0, THIRD: 500.0})):
        vote(db, open_agent(http, **on(logical_cores=cores)), times)
    vote(db, open_agent(http, **on(cpu_architecture="arm")), {SECOND: 100.0})
    aggregate_by_family(db, RULE)
    hardware = Hardware(cpu_architecture="x86", logical_cores=8, gpu_vendor="", gpu_architecture="")
    unseen = f"{hardware.device_id}:r1-0:{SIMD}"
    entry = served(http, unseen, hardware=hardware)
    assert (entry["level"], entry["kernel"]["candidate"]) == ("architecture", THIRD.candidate_id)
    grounds = entry["grounds"]
    assert (grounds["identities"], grounds["classes"], grounds["rho_distance"]) == (2, 2, 0)
    assert grounds["relative_time"] == pytest.approx(1.1**0.5), "the mean of octaves"
    # Of a device that does not tell its architecture, all classes speak.
    assert served(http, unseen)["level"] == "common"


@pytest.mark.parametrize(("malicious_share", "chosen"), [(0.0, THIRD), (0.2, SECOND)])
def test_one_class_of_five_does_not_decide_for_its_family_where_a_fifth_may_lie(
    http: TestClient, db: Connection, malicious_share: float, chosen: Candidate
) -> None:
    """Attack: a class that calls the best kernel of all the others a hundred times as slow."""
    honest, lies = {SECOND: 500.0, THIRD: 550.0}, {SECOND: 50_000.0, THIRD: 500.0}
    for cores, times in ((1, honest), (2, honest), (3, honest), (4, honest), (5, lies)):
        vote(db, open_agent(http, **on(logical_cores=cores)), times)
    aggregate_by_family(db, replace(RULE, malicious_share=malicious_share))
    hardware = Hardware(cpu_architecture="x86", logical_cores=8, gpu_vendor="", gpu_architecture="")
    entry = served(http, f"{hardware.device_id}:r1-0:{SIMD}", hardware=hardware)
    assert (entry["level"], entry["kernel"]["candidate"]) == ("architecture", chosen.candidate_id)


def test_classes_with_the_nearest_primitive_vector_speak_for_their_family(
    http: TestClient, db: Connection
) -> None:
    for rho, winner in (("r1-00", SECOND), ("r1-11", THIRD)):
        vote(db, open_agent(http, **on(), rho=rho), {winner: 1000.0})
    aggregate_by_family(db, RULE)
    chosen = {rho: served(http, f"{NEVER_SEEN}:{rho}:{SIMD}") for rho in ("r1-00", "r1-11")}
    assert {rho: entry["kernel"]["candidate"] for rho, entry in chosen.items()} == {
        "r1-00": SECOND.candidate_id,
        "r1-11": THIRD.candidate_id,
    }
    assert served(http, f"{NEVER_SEEN}:r2-11:{SIMD}")["grounds"]["rho_distance"] == 65


def test_a_kernel_that_a_page_cannot_run_is_not_served_to_it(
    http: TestClient, db: Connection
) -> None:
    vote(db, open_agent(http, **on()), {SECOND: 1000.0})
    aggregate_by_family(db, RULE)
    assert served(http, f"{NEVER_SEEN}:r1-0:{SIMD}")["level"] == "common"
    answer = http.get(f"/v1/zoo/{WORKLOAD.key}/{NEVER_SEEN}:r1-0:wasm").json()
    assert answer["missing"] == [WORKLOAD.key]


def test_a_provisional_entry_is_nobodys_evidence(http: TestClient, db: Connection) -> None:
    vote(db, open_agent(http, **on()), {SECOND: 1000.0}, Rule(quorum=2, malicious_share=0))
    aggregate_by_family(db, RULE)
    assert served(http, f"{NEVER_SEEN}:r1-0:{SIMD}")["level"] == "default"


def test_an_entry_with_fewer_identities_than_the_quorum_of_today_says_nothing(
    http: TestClient, db: Connection
) -> None:
    vote(db, open_agent(http, **on()), {SECOND: 1000.0})
    aggregate_by_family(db, replace(RULE, quorum=2))
    assert served(http, f"{NEVER_SEEN}:r1-0:{SIMD}")["level"] == "default"


def measured_alike(db: Connection) -> str:
    """Another identity has measured what the one that voted has. Returns it."""
    row = db.execute(
        """
        WITH other AS (
            INSERT INTO identity (network, operated) VALUES ('', true) RETURNING id
        ), measured AS (
            SELECT m.* FROM measurement m JOIN ballot b ON b.identity_id = m.identity_id
        ), lent AS (
            INSERT INTO lease (session_id, identity_id, device_class, job_id, reference_id, seed,
                               nonce, expires_at)
            SELECT l.session_id, other.id, l.device_class, l.job_id, l.reference_id, 0, '', now()
            FROM lease l CROSS JOIN other
            WHERE l.id = (SELECT min(lease_id) FROM measured) RETURNING id
        ), items AS (
            INSERT INTO lease_item (lease_id, candidate_id)
            SELECT lent.id, m.candidate_id FROM measured m CROSS JOIN lent
        ), written AS (
            INSERT INTO measurement (lease_id, candidate_id, identity_id, device_class, outcome,
                                     samples_ns, reference_ns, calls_per_sample, sampled_entries,
                                     detail, verdict, best_ns, relative_time, job_id)
            SELECT lent.id, m.candidate_id, other.id, m.device_class, m.outcome, m.samples_ns,
                   m.reference_ns, m.calls_per_sample, m.sampled_entries, m.detail, m.verdict,
                   m.best_ns, m.relative_time, m.job_id
            FROM measured m CROSS JOIN lent CROSS JOIN other
        )
        SELECT id::text FROM other
        """
    ).fetchone()
    assert row is not None
    return str(row[0])


def test_of_a_winner_only_the_first_and_the_latest_measurements_are_read_however_many_there_are(
    http: TestClient, db: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chain, "EARLIEST", 2)
    monkeypatch.setattr(chain, "LATEST", 3)
    voter = open_agent(http, **on())
    vote(db, voter, {SECOND: 1000.0})
    (first,) = db.execute("SELECT identity_id::text FROM ballot").fetchone() or ("",)
    others = [measured_alike(db) for _ in range(7)]
    voting = chain.voters(WORKLOAD.key, RULE.quorum, Trust.CROWD)
    found = [str(row.identity_id) for row in fetch_all(db, voting)]
    assert found == [first, others[0], *others[-3:]]
    timed = chain.class_times(
        WORKLOAD.key,
        RULE.quorum,
        device_classes=[DeviceClass.parse(voter.device_class)] * len(found),
        identities=found,
    )
    assert [row.identities for row in fetch_all(db, timed)] == [5]
    for asked in (voting, timed):
        assert rows_read(db, asked, "measurement") == 5


def test_what_a_retired_entry_said_is_forgotten(http: TestClient, db: Connection) -> None:
    agent = open_agent(http, **on())
    vote(db, agent, {SECOND: 1000.0})
    aggregate_by_family(db, RULE)
    db.execute("UPDATE zoo_entry SET state = 'retired', aggregated = false")
    aggregate_by_family(db, RULE)
    assert db.execute("SELECT count(*) FROM common_kernel").fetchone() == (0,)


def gpu_agent(http: TestClient, vendor: str, architecture: str, cores: int = 2) -> Agent:
    hardware = {
        **GPU["hardware"],
        "logical_cores": cores,
        "gpu_vendor": vendor,
        "gpu_architecture": architecture,
    }
    return open_agent(http, **{**GPU, "features": [], "hardware": hardware})


def test_a_gpu_asks_its_architecture_then_its_vendor_and_takes_no_kernel_of_another_space(
    http: TestClient, db: Connection
) -> None:
    every = [make_candidate(tile, (), TargetKind.WEBGPU) for tile in range(3)]
    open_job(db, every[:2])
    assert gpu_agent(http, "nvidia", "ampere").lease().status_code == 204
    row = db.execute("SELECT id FROM tuning_job WHERE space = 'nvidia-ampere'").fetchone()
    assert row is not None
    plan(db, row[0], every)
    compile_row(db, every[2])
    vote(db, gpu_agent(http, "nvidia", "ampere"), {every[1]: 1000.0, every[2]: 500.0})
    aggregate_by_family(db, RULE)

    def asked_by(vendor: str, architecture: str) -> tuple[str, str]:
        hardware = Hardware(
            cpu_architecture="",
            logical_cores=8,
            gpu_vendor=vendor,
            gpu_architecture=architecture,
        )
        device_class = f"{hardware.device_id}:r101-0:webgpu"
        entry = served(http, device_class, hardware=hardware, target=TargetKind.WEBGPU)
        return entry["level"], entry["kernel"]["candidate"]

    assert asked_by("nvidia", "ampere") == ("architecture", every[2].candidate_id)
    # Candidate 2 is of Ampere's space alone.
    assert asked_by("nvidia", "turing") == ("default", every[0].candidate_id)
    vote(db, gpu_agent(http, "nvidia", "ampere", 4), {every[1]: 500.0})
    aggregate_by_family(db, RULE)
    by_vendor = ("vendor", every[1].candidate_id)
    # The gateway forgets what it has answered when it hears of the change.
    eventually(lambda: asked_by("nvidia", "turing") == by_vendor, "its vendor's kernel")
    assert asked_by("amd", "rdna-2") == ("common", every[1].candidate_id)


def test_a_class_that_knows_a_similar_shape_is_served_its_winners_settings(
    http: TestClient, db: Connection
) -> None:
    near, far, strange = (
        Workload.of("matmul", (2, 3, 8)),
        Workload.of("matmul", (64, 3, 8)),
        Workload.of("matmul_nt", (2, 3, 4)),
    )
    agent = open_agent(http, **on())
    for workload, tile in ((near, 1), (far, 2), (strange, 2)):
        space = [of(workload, tile) for tile in range(3)]
        db.execute("UPDATE tuning_job SET state = 'failed'")
        open_job(db, space)
        vote(db, agent, {space[tile]: 1000.0})
    db.execute("UPDATE tuning_job SET state = 'planned'")
    entry = served(http, agent.device_class)
    assert (entry["level"], entry["kernel"]["candidate"]) == ("shape", SECOND.candidate_id)
    assert entry["grounds"]["neighbour"] == near.key
    assert entry["grounds"]["identities"] == 1


def of(workload: Workload, tile: int) -> Candidate:
    return Candidate(
        workload=workload,
        target=TargetKind.WASM,
        config=(("tile", tile),),
        requires=("simd128",),
    )


def test_before_anybody_has_voted_the_cost_model_is_asked(
    http: TestClient, db: Connection, job_id: int
) -> None:
    by_claims, by_model = (f"{NEVER_SEEN}:{rho}:{SIMD}" for rho in ("r1-0", "r1-1"))
    ranked = [each.candidate_id for each in (THIRD, SECOND, FIRST)]
    execute(db, orders.put_order(job_id, DeviceClass.parse(by_claims), 0, ranked))
    execute(db, orders.put_order(job_id, DeviceClass.parse(by_model), 1, ranked))
    assert served(http, by_claims)["level"] == "default"
    entry = served(http, by_model)
    assert (entry["level"], entry["kernel"]["candidate"]) == ("model", THIRD.candidate_id)
    assert (entry["grounds"]["identities"], entry["grounds"]["classes"]) == (0, 0)


def test_a_device_never_seen_has_the_order_of_strangers_with_its_primitive_vector(
    http: TestClient, db: Connection, job_id: int
) -> None:
    stranger = f"{'0' * 16}:r1-1:{SIMD}"
    execute(db, orders.put_order(job_id, DeviceClass.parse(stranger), 1, [SECOND.candidate_id]))
    assert served(http, f"{NEVER_SEEN}:r1-1:{SIMD}")["level"] == "model"
    assert served(http, f"{NEVER_SEEN}:r1-0:{SIMD}")["level"] == "default"


@pytest.mark.parametrize(
    ("told", "words"),
    [
        ("x86", "must be JSON as the `hardware` of POST /v1/sessions"),
        (
            '{"cpu_architecture":"arm","logical_cores":2,"gpu_vendor":"","gpu_architecture":""}',
            "this hardware has the device id",
        ),
    ],
)
def test_hardware_that_is_not_the_devices_own_is_refused(
    http: TestClient, told: str, words: str
) -> None:
    answer = http.get(f"/v1/zoo/{WORKLOAD.key}/{NEVER_SEEN}:r1-0:{SIMD}", params={"hardware": told})
    assert answer.status_code == 422
    assert words in answer.json()["detail"]
