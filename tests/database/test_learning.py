"""From the crowd's measurements to a model, and from a model to what a device measures first."""

from math import log2

import pytest
from fastapi.testclient import TestClient

from fixtures.analytic import CORES
from fixtures.rows import compile_row, plan
from kernelzoo.domain.candidate import Candidate
from kernelzoo.domain.device import GpuProbeLevels
from kernelzoo.domain.target import TargetKind
from kernelzoo.store import cost_models, orders
from kernelzoo.store.blocking import fetch_all, fetch_one
from tests.database.client import GPU, OPERATOR, Agent, open_agent
from tests.database.conftest import WORKLOAD, Connection, make_candidate
from tests.database.crowd import REFERENCE_NS, SHAPES, paper_crowd
from tests.database.rows_read import rows_read
from tests.reports import all_ok
from workers import learning, modelling


@pytest.fixture
def crowd(db: Connection) -> dict[int, tuple[Candidate, ...]]:
    """Spaces by job."""
    return paper_crowd(db)


def costs_of(db: Connection, job_id: int, device_class: str) -> list[float]:
    row = db.execute(
        "SELECT costs FROM evaluation_order WHERE job_id = %s AND device_class = %s",
        (job_id, device_class),
    ).fetchone()
    assert row is not None
    return list(row[0])


def order_of(db: Connection, job_id: int, device_class: str) -> list[str]:
    row = db.execute(
        "SELECT candidate_ids FROM evaluation_order WHERE job_id = %s AND device_class = %s",
        (job_id, device_class),
    ).fetchone()
    assert row is not None
    return list(row[0])


def test_enough_measurements_make_a_model_and_its_evaluation_is_told(
    http: TestClient, db: Connection, crowd: dict[int, tuple[Candidate, ...]]
) -> None:
    learning.train(db, at_once=False)
    (model,) = http.get("/v1/cost-models").json()["models"]
    assert (model["version"], model["published"]) == (1, True)
    assert model["measurements"] == len(CORES[:6]) * sum(len(space) for space in crowd.values())
    shapes = model["evaluation"]["shapes"]
    assert shapes["model"]["races"] == 8
    assert shapes["model"]["correlation"] > shapes["promise"]["correlation"]


@pytest.mark.usefixtures("crowd")
def test_a_model_is_trained_again_when_enough_is_new_or_when_asked(db: Connection) -> None:
    learning.train(db, at_once=False)
    learning.train(db, at_once=False)
    assert len(fetch_all(db, cost_models.trained(9))) == 1
    learning.train(db, at_once=True)
    again, first = fetch_all(db, cost_models.trained(9))
    assert (again.published, again.reason) == (False, "the same model is served already")
    assert again.sha256 == first.sha256
    served = fetch_one(db, cost_models.served())
    assert served is not None
    assert served.version == first.version


def test_training_is_due_in_proportion_to_what_is_known() -> None:
    assert not learning.is_due(199, 0)
    assert learning.is_due(200, 0)
    assert not learning.is_due(10_500, 10_000)
    assert learning.is_due(12_000, 10_000)


@pytest.mark.usefixtures("crowd")
def test_races_before_the_latest_are_not_even_read(
    db: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cost_models, "LEASES_A_RACE", 1)
    asked = cost_models.timed(2)
    learned = fetch_all(db, asked)
    last = CORES[5].probed.device_class
    assert {row.device_class for row in learned} == {last}
    assert {row.workload_key for row in learned} == {shape.key for shape in SHAPES[-2:]}
    read = rows_read(db, asked, "measurement")
    assert read <= 3 * len(learned), f"{read} rows of measurements for {len(learned)} results"


@pytest.mark.usefixtures("crowd")
def test_sessions_are_looked_up_by_number_even_where_joins_read_whole_tables(
    db: Connection, owner: Connection
) -> None:
    db.execute(
        """
        INSERT INTO agent_session (identity_id, device_id, device_class, engine_name,
                                   engine_version, peak_gflops, isolated)
        SELECT s.identity_id, s.device_id, s.device_class, s.engine_name, s.engine_version,
               s.peak_gflops, s.isolated
        FROM agent_session s CROSS JOIN generate_series(1, 2000)
        """
    )
    owner.execute("ANALYZE agent_session")
    ((leases,),) = db.execute("SELECT count(*) FROM lease").fetchall()
    asked = cost_models.timed(modelling.RACES)
    learned = len(fetch_all(db, asked))
    read = rows_read(db, asked, "agent_session", without=("nestloop",))
    assert 0 < read <= leases + learned


def test_nothing_is_learned_from_measurements_that_are_not_verified(
    db: Connection, crowd: dict[int, tuple[Candidate, ...]]
) -> None:
    assert crowd
    db.execute("UPDATE measurement SET verdict = 'rejected'")
    learning.train(db, at_once=True)
    assert fetch_all(db, cost_models.trained(9)) == []


def test_a_device_measures_first_what_the_model_expects_of_it(
    db: Connection, crowd: dict[int, tuple[Candidate, ...]]
) -> None:
    learning.train(db, at_once=True)
    learning.order_spaces(db)
    assert fetch_all(db, orders.unordered(9)) == []
    lost, foretold = [], []
    for core in CORES[:6]:
        for job_id, space in crowd.items():
            times = {each.candidate_id: core.time(each) for each in space}
            order = order_of(db, job_id, str(core.probed.device_class))
            assert sorted(order) == sorted(times)
            lost.append(times[order[0]] / min(times.values()) - 1)
            costs = costs_of(db, job_id, str(core.probed.device_class))
            assert costs == sorted(costs)
            foretold.append(log2(times[order[-1]] / times[order[0]]) - (costs[-1] - costs[0]))
    assert sum(lost) / len(lost) < 0.05
    assert abs(sum(foretold) / len(foretold)) < 0.5, "in octaves, from the first to the last"


def test_strangers_have_an_order_for_each_primitive_vector_once_there_is_a_model(
    db: Connection, crowd: dict[int, tuple[Candidate, ...]]
) -> None:
    learning.order_spaces(db)
    count = "SELECT count(*) FROM evaluation_order WHERE device_class LIKE '0000000000000000:%'"
    assert db.execute(count).fetchone() == (0,)
    learning.train(db, at_once=True)
    learning.order_spaces(db)
    vectors = {core.probed.device_class.rho for core in CORES[:6]}
    assert db.execute(count).fetchone() == (len(vectors) * len(crowd),)


@pytest.fixture
def compiled_job(db: Connection, job_id: int) -> int:
    compile_row(db, make_candidate(3))
    return job_id


def claim(http: TestClient, *tiles: tuple[int, float]) -> dict[str, int]:
    body = {
        "source": "cache.json",
        "claims": [
            {
                "workload": WORKLOAD.key,
                "target": "wasm",
                "device": "A100",
                "config": {"tile": tile},
                "time": time,
            }
            for tile, time in tiles
        ],
    }
    assert http.post("/v1/evidence", json=body).status_code == 401
    answer = http.post("/v1/evidence", json=body, headers=OPERATOR)
    assert answer.status_code == 202, answer.text
    return dict(answer.json())


def lent(agent: Agent, db: Connection) -> list[str]:
    """Borrows candidates in their order, as if nobody had borrowed anything."""
    db.execute("UPDATE lease SET expires_at = now()")
    return [kernel["candidate"] for kernel in agent.lease().json()["candidates"]]


@pytest.mark.usefixtures("compiled_job")
def test_what_others_claim_is_measured_early_and_changes_nothing_else(
    http: TestClient, db: Connection
) -> None:
    first, second, relaxed, third = (
        make_candidate(0).candidate_id,
        make_candidate(1).candidate_id,
        make_candidate(2, ("relaxed-simd", "simd128")).candidate_id,
        make_candidate(3).candidate_id,
    )
    agent = open_agent(http)
    assert lent(agent, db) == [first, second, relaxed, third]
    assert claim(http, (3, 0.5), (2, 0.7), (99, 0.1)) == {"accepted": 2, "unknown": 1}
    learning.order_spaces(db)
    assert lent(agent, db) == [first, third, relaxed, second]
    assert db.execute("SELECT DISTINCT reference_id FROM lease").fetchall() == [(first,)]
    assert db.execute("SELECT count(*) FROM ballot").fetchone() == (0,)
    assert db.execute("SELECT count(*) FROM measurement").fetchone() == (0,)
    assert http.get("/v1/zoo").json()["entries"] == []


@pytest.mark.usefixtures("compiled_job")
def test_a_later_claim_of_a_source_replaces_its_first(http: TestClient, db: Connection) -> None:
    claim(http, (1, 1.0), (3, 2.0))
    claim(http, (1, 2.0), (3, 1.0))
    agent = open_agent(http)
    learning.order_spaces(db)
    assert lent(agent, db)[:2] == [make_candidate(0).candidate_id, make_candidate(3).candidate_id]


def gpu_space() -> list[Candidate]:
    return [make_candidate(tile, (), TargetKind.WEBGPU) for tile in range(3)]


@pytest.fixture
def gpu_jobs(http: TestClient, db: Connection) -> dict[str, int]:
    """Compiled spaces of any GPU and of SwiftShader; candidates 1 and 2 are of both."""
    body = {"workload": WORKLOAD.key, "target": "webgpu"}
    opened = http.post("/v1/jobs", json=body, headers=OPERATOR).json()
    plan(db, opened["job"], gpu_space())
    assert open_agent(http, **GPU).lease().status_code == 204
    jobs = {job["space"]: int(job["job"]) for job in http.get("/v1/jobs").json()["jobs"]}
    plan(db, jobs["swiftshader"], gpu_space()[1:])
    for candidate in gpu_space():
        compile_row(db, candidate)
    return jobs


def test_a_gpu_measures_its_own_space_in_its_own_order(
    http: TestClient, db: Connection, gpu_jobs: dict[str, int]
) -> None:
    agent = open_agent(http, **GPU)
    body = {
        "source": "cache.json",
        "claims": [
            {
                "workload": WORKLOAD.key,
                "target": "webgpu",
                "device": "A100",
                "config": {"tile": 2},
                "time": 1.0,
            }
        ],
    }
    assert http.post("/v1/evidence", json=body, headers=OPERATOR).json()["accepted"] == 1
    waiting = {(row.job_id, str(row.device_class)) for row in fetch_all(db, orders.unordered(9))}
    assert waiting == {(gpu_jobs["swiftshader"], agent.device_class)}
    learning.order_spaces(db)
    assert fetch_all(db, orders.unordered(9)) == []
    first, second = gpu_space()[1:]
    job = gpu_jobs["swiftshader"]
    assert order_of(db, job, agent.device_class) == [first.candidate_id, second.candidate_id]
    db.execute("UPDATE evaluation_order SET candidate_ids = %s", ([second.candidate_id],))
    lease = agent.lease(limit=1).json()
    assert [each["candidate"] for each in lease["candidates"]] == [second.candidate_id]
    assert lease["reference"]["candidate"] == first.candidate_id


@pytest.mark.usefixtures("gpu_jobs")
def test_measurements_of_a_gpu_are_learned_from_and_told_once_for_all_spaces(
    http: TestClient, db: Connection
) -> None:
    agent = open_agent(http, **GPU)
    lease = agent.lease().json()
    agent.report(lease, all_ok(lease))
    db.execute("UPDATE measurement SET verdict = 'verified'")
    ids = [candidate.candidate_id for candidate in gpu_space()[1:]]
    timed = [row.to_candidate(WORKLOAD).candidate_id for row in fetch_all(db, cost_models.timed(9))]
    assert timed == ids
    (device,) = {each.device for each in modelling.observations(db)}
    assert device.probe == GpuProbeLevels(**GPU["probe"])
    (found,) = http.get("/v1/results", params={"workload": WORKLOAD.key}, headers=OPERATOR).json()[
        "results"
    ]
    assert [trial["candidate"] for trial in found["trials"]] == ids


def test_results_are_told_to_the_operator_alone(
    http: TestClient, crowd: dict[int, tuple[Candidate, ...]]
) -> None:
    key = SHAPES[0].key
    assert http.get(f"/v1/results?workload={key}").status_code == 401
    found = http.get(f"/v1/results?workload={key}", headers=OPERATOR).json()["results"]
    assert len(found) == 6
    one = CORES[0].probed.device_class
    (alone,) = http.get(
        "/v1/results", params={"workload": key, "device_class": str(one)}, headers=OPERATOR
    ).json()["results"]
    (space,) = (each for each in crowd.values() if each[0].workload == SHAPES[0])
    assert [trial["candidate"] for trial in alone["trials"]] == [c.candidate_id for c in space]
    assert alone["trials"][3]["times_ns"] == [CORES[0].time(space[3]) * REFERENCE_NS]
    assert {trial["outcome"] for trial in alone["trials"]} == {"ok"}
