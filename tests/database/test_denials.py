"""Kernels that fail on a class: claimed by strangers and pages, decided, taken back."""

from dataclasses import replace
from typing import Any

import pytest
from fastapi.testclient import TestClient

from fixtures.rows import compile_row
from kernelzoo.domain.candidate import Candidate
from kernelzoo.domain.device import DeviceClass, Hardware
from kernelzoo.domain.target import TargetKind
from kernelzoo.domain.trust import Trust
from kernelzoo.domain.workload import Workload
from kernelzoo.domain.zoo import EntryState, Evidence
from kernelzoo.settings import Settings
from kernelzoo.store import denials, models, notifications, zoo
from kernelzoo.store.blocking import execute, fetch_all
from kernelzoo.store.zoo import NO_EVIDENCE
from services.aggregator.publishing import Rule
from services.gateway.app import application
from tests.database.client import OPERATOR, SESSION, Agent, open_agent
from tests.database.conftest import RELAXED, WORKLOAD, Connection, make_candidate, open_space
from tests.database.rows_read import rows_read
from tests.database.strangers import Crowd, timed
from tests.reports import failure
from tests.running import eventually
from workers.aggregating import tally, verify_lease
from workers.maintenance import stalled

pytestmark = pytest.mark.usefixtures("job_id")

DEVICE_ID = Hardware(**SESSION["hardware"]).device_id
CLASS = DeviceClass.parse(f"{DEVICE_ID}:r1-0:wasm+relaxed-simd+simd128")
DEFAULT, SECOND, THIRD = (
    candidate.candidate_id
    for candidate in (make_candidate(0), make_candidate(1), make_candidate(2, RELAXED))
)
EVIDENCE = Evidence(ballots=5, weight=25, total_weight=30, relative_time=0.5)
RULE = Rule(quorum=5, malicious_share=0.2)


def artifact_of(db: Connection, candidate_id: str) -> str:
    row = db.execute(
        "SELECT artifact_sha256 FROM candidate WHERE candidate_id = %s", (candidate_id,)
    ).fetchone()
    assert row is not None
    return str(row[0])


def publish(db: Connection, *candidates: str, state: EntryState = EntryState.CONFIRMED) -> None:
    for candidate in candidates:
        execute(db, zoo.retire(WORKLOAD.key, DeviceClass.parse(str(CLASS))))
        execute(
            db, zoo.publish(WORKLOAD.key, DeviceClass.parse(str(CLASS)), candidate, state, EVIDENCE)
        )
    execute(db, notifications.zoo_changed())


def served(http: TestClient, device_class: str = str(CLASS)) -> dict[str, Any]:
    (entry,) = http.get(f"/v1/zoo/{WORKLOAD.key}/{device_class}").json()["entries"]
    return dict(entry["wasm"])


def decide(http: TestClient, artifact: str, *, denied: bool) -> dict[str, Any]:
    body = {
        "artifact": artifact,
        "device_class": str(CLASS),
        "denied": denied,
        "reason": "it crashed a phone",
    }
    answer = http.put("/v1/denied", json=body, headers=OPERATOR)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def history(db: Connection) -> list[tuple[str, str, str]]:
    rows = db.execute("SELECT candidate_id, state, reason FROM zoo_entry ORDER BY version")
    return rows.fetchall()


def test_a_denied_entry_gives_way_to_the_version_that_was_served_before(
    http: TestClient, db: Connection
) -> None:
    publish(db, SECOND, THIRD)
    eventually(lambda: served(http)["kernel"]["candidate"] == THIRD, "the winner")
    decision = decide(http, artifact_of(db, THIRD), denied=True)
    assert decision["candidates"] == [THIRD]
    # At once, before any worker ran:
    eventually(lambda: served(http)["kernel"]["candidate"] == DEFAULT, "the default")
    (job,) = [job for job in stalled(db, 0, 16) if job.name == "tally"]
    assert job.arguments == (WORKLOAD.key, str(CLASS))
    tally(db, WORKLOAD.key, DeviceClass.parse(str(CLASS)), RULE)
    eventually(lambda: served(http)["kernel"]["candidate"] == SECOND, "the version before")
    assert served(http)["version"] == 3
    assert history(db)[-1] == (
        SECOND,
        "confirmed",
        "version 2 is denied: it crashed a phone",
    )
    assert [job for job in stalled(db, 0, 16) if job.name == "tally"] == []


def test_of_all_entries_those_alone_are_looked_at_whose_kernel_is_denied_to_their_class(
    http: TestClient, db: Connection
) -> None:
    publish(db, SECOND)
    for number in range(40):
        other = DeviceClass.parse(f"{number:016x}:{str(CLASS).partition(':')[2]}")
        execute(db, zoo.publish(WORKLOAD.key, other, SECOND, EntryState.CONFIRMED, NO_EVIDENCE))
    decide(http, artifact_of(db, SECOND), denied=True)
    waiting = denials.requeue_waiting(0)
    assert [row.device_class for row in fetch_all(db, waiting)] == [DeviceClass.parse(str(CLASS))]
    assert rows_read(db, waiting, "zoo_entry") == 1


def test_what_was_never_served_is_not_rolled_back_to(http: TestClient, db: Connection) -> None:
    publish(db, SECOND, state=EntryState.PROVISIONAL)
    publish(db, THIRD)
    decide(http, artifact_of(db, THIRD), denied=True)
    tally(db, WORKLOAD.key, DeviceClass.parse(str(CLASS)), RULE)
    assert [(kernel, state) for kernel, state, _ in history(db)][-1] == (DEFAULT, "confirmed")


def test_two_denied_versions_are_stepped_over(http: TestClient, db: Connection) -> None:
    publish(db, DEFAULT, SECOND, THIRD)
    decide(http, artifact_of(db, SECOND), denied=True)
    decide(http, artifact_of(db, THIRD), denied=True)
    tally(db, WORKLOAD.key, DeviceClass.parse(str(CLASS)), RULE)
    assert history(db)[-1][0] == DEFAULT


def test_a_denied_default_is_replaced_by_the_next_that_the_device_can_run(
    http: TestClient, db: Connection
) -> None:
    assert served(http)["kernel"]["candidate"] == DEFAULT
    decide(http, artifact_of(db, DEFAULT), denied=True)
    eventually(lambda: served(http)["fallback"]["candidate"] == SECOND, "another default")
    other = "fedcba9876543210:r1-0:wasm+relaxed-simd+simd128"
    assert served(http, other)["kernel"]["candidate"] == DEFAULT


def test_a_denied_kernel_is_not_lent_and_an_allowed_one_is_again(
    http: TestClient, db: Connection
) -> None:
    agent = open_agent(http)
    for denied, lent in ((True, [DEFAULT, SECOND]), (False, [THIRD])):
        body = {
            "artifact": artifact_of(db, THIRD),
            "device_class": agent.device_class,
            "denied": denied,
            "reason": "a test",
        }
        assert http.put("/v1/denied", json=body, headers=OPERATOR).status_code == 200
        lease = agent.lease().json()
        assert [kernel["candidate"] for kernel in lease["candidates"]] == lent


def fail(agent: Agent, db: Connection, candidate: str, rule: Rule = RULE) -> None:
    """Does its whole share; everything else of it works."""
    while (found := agent.lease()).status_code == 200:
        lease = found.json()
        salt = int(lease["lease"])
        report = [
            failure(each["candidate"], "run")
            if each["candidate"] == candidate
            else timed(lease, each["candidate"], 1000.0, salt)
            for each in lease["candidates"]
        ]
        if report:
            assert agent.report(lease, report).status_code == 202
            verify_lease(db, salt)
    tally(db, WORKLOAD.key, DeviceClass.parse(agent.device_class), rule)


def denied(db: Connection) -> list[tuple[str, str, str]]:
    return db.execute("SELECT artifact_sha256, stage, evidence FROM denied").fetchall()


def test_strangers_deny_a_kernel_that_fails_for_all_of_them_and_one_does_not(
    come: Crowd, db: Connection
) -> None:
    """Two of them, as they explore; once the space is covered the others, of whom each measures
    one that does not lead.
    """
    compile_row(db, make_candidate(3))
    for network in range(5):
        assert denied(db) == []
        fail(come(network), db, THIRD)
    assert denied(db) == [(artifact_of(db, THIRD), "run", "failed for 5 of 5 networks")]


@pytest.mark.parametrize("trust", [Trust.OPERATOR, Trust.APPLICATIONS])
def test_strangers_who_were_let_in_before_deny_nothing_under_a_narrower_trust(
    come: Crowd, db: Connection, trust: Trust
) -> None:
    compile_row(db, make_candidate(3))
    narrow = replace(RULE, trust=trust)
    for network in range(5):
        fail(come(network), db, THIRD, narrow)
    assert denied(db) == []
    # An application's, since then.
    made = db.execute(
        "INSERT INTO application (name, key_hash, origins, jobs_per_day, sets, workloads_per_set)"
        " VALUES ('shop', repeat('0', 64), '{}', 1, 1, 1) RETURNING id"
    ).fetchone()
    assert made is not None
    db.execute("UPDATE agent_session SET application_id = %s", made)
    tally(db, WORKLOAD.key, CLASS, narrow)
    assert len(denied(db)) == (1 if trust is Trust.APPLICATIONS else 0)


def test_many_of_one_network_deny_nothing(come: Crowd, db: Connection) -> None:
    for _ in range(2):
        fail(come(1), db, THIRD)
    db.execute("UPDATE identity SET network = 'one'")
    assert denied(db) == []


def test_one_of_the_operators_agents_denies(http: TestClient, db: Connection) -> None:
    fail(open_agent(http), db, THIRD)
    assert denied(db) == [(artifact_of(db, THIRD), "run", "failed for 1 of 1 operated agents")]


def test_a_device_on_which_nothing_works_says_nothing(http: TestClient, db: Connection) -> None:
    agent = open_agent(http)
    lease = agent.lease().json()
    agent.report(lease, [failure(each["candidate"], "run") for each in lease["candidates"]])
    verify_lease(db, int(lease["lease"]))
    tally(db, WORKLOAD.key, DeviceClass.parse(agent.device_class), RULE)
    assert denied(db) == []


def test_who_says_that_a_kernel_fails_is_found_without_reading_other_kernels(
    come: Crowd, db: Connection
) -> None:
    fail(come(1), db, SECOND)
    workload = Workload.of("matmul", (5, 6, 7))
    space = [
        Candidate(workload=workload, target=TargetKind.WASM, config=(("tile", tile),), requires=())
        for tile in range(50)
    ]
    open_space(db, space)
    for candidate in space:
        compile_row(db, candidate)
    suspects = denials.suspects(WORKLOAD.key, CLASS, Trust.CROWD)
    assert [row.sha256 for row in fetch_all(db, suspects)][-1] == artifact_of(db, SECOND)
    assert rows_read(db, suspects, "candidate") < len(space)
    asked = denials.voices([artifact_of(db, SECOND)], CLASS, Trust.CROWD)
    assert [row.stage for row in fetch_all(db, asked)] == ["run"]
    assert rows_read(db, asked, "candidate") < len(space)


def test_nobody_is_looked_up_for_whom_a_kernel_failed_that_runs_for_most(
    come: Crowd, db: Connection
) -> None:
    """They become many in months, and their rows are in no memory."""
    compile_row(db, make_candidate(3))
    for network in range(4):
        fail(come(network), db, THIRD)
    failed = db.execute("SELECT lease_id FROM measurement WHERE outcome <> 'ok'").fetchall()
    assert len(failed) == 4
    ran = "UPDATE measurement SET outcome = 'ok' WHERE lease_id = %s"
    suspects = denials.suspects(WORKLOAD.key, CLASS, Trust.CROWD)
    for (lease,) in failed[:2]:
        db.execute(ran, (lease,))
    (found,) = fetch_all(db, suspects)
    assert (found.failed, found.ran, found.operated) == (2, 2, False)
    db.execute(ran, failed[2])
    assert fetch_all(db, suspects) == []
    assert rows_read(db, suspects, "identity") == 3


def test_what_the_operator_allowed_no_crowd_denies(http: TestClient, db: Connection) -> None:
    agent = open_agent(http)
    body = {
        "artifact": artifact_of(db, THIRD),
        "device_class": agent.device_class,
        "denied": False,
        "reason": "a broken driver of one phone",
    }
    http.put("/v1/denied", json=body, headers=OPERATOR)
    fail(agent, db, THIRD)
    (listed,) = http.get("/v1/denied").json()["decisions"]
    assert (listed["denied"], listed["operated"]) == (False, True)


def page_failure(
    settings: Settings, network: int, sha256: str, *, origin: str = "", **changes: Any
) -> tuple[int, Any]:
    body = {
        "workload": WORKLOAD.key,
        "device_class": str(CLASS),
        "artifact": sha256,
        "stage": "run",
        "detail": "RuntimeError: unreachable",
    }
    with TestClient(application(settings), client=(f"10.1.{network}.1", 5000)) as http:
        headers = {"Origin": origin} if origin else {}
        answer = http.post("/v1/failures", json={**body, **changes}, headers=headers)
        return answer.status_code, answer.json()


def test_pages_of_many_networks_take_a_served_kernel_back(
    settings: Settings, http: TestClient, db: Connection
) -> None:
    lease = (agent := open_agent(http)).lease(limit=1).json()
    assert agent.device_class == str(CLASS)
    agent.report(lease, [timed(lease, DEFAULT, 1000.0, 1)])
    verify_lease(db, int(lease["lease"]))
    publish(db, SECOND)
    artifact = artifact_of(db, SECOND)
    for network in (1, 1, 1, 2, 3, 4):
        assert page_failure(settings, network, artifact) == (202, {"noted": True})
        if any(job.name == "tally" for job in stalled(db, 0, 16)):
            tally(db, WORKLOAD.key, DeviceClass.parse(str(CLASS)), RULE)
    assert denied(db) == []
    page_failure(settings, 5, artifact)
    tally(db, WORKLOAD.key, DeviceClass.parse(str(CLASS)), RULE)
    assert denied(db) == [(artifact, "run", "failed for 5 of 5 networks")]
    assert history(db)[-1][0] == DEFAULT


@pytest.mark.parametrize("narrow", [Trust.OPERATOR, Trust.APPLICATIONS])
def test_pages_that_were_heard_before_deny_nothing_under_a_narrower_trust_until_they_say_it_again(
    settings: Settings, http: TestClient, db: Connection, narrow: Trust
) -> None:
    lease = (agent := open_agent(http)).lease(limit=1).json()
    agent.report(lease, [timed(lease, DEFAULT, 1000.0, 1)])
    verify_lease(db, int(lease["lease"]))
    artifact = artifact_of(db, SECOND)
    for network in range(5):
        assert page_failure(settings, network, artifact)[0] == 202
    rule = replace(RULE, trust=narrow)
    tally(db, WORKLOAD.key, CLASS, rule)
    assert denied(db) == []
    own = settings.model_copy(update={"trust": narrow, "origins": "https://zoo.example"})
    for network in range(5):
        page_failure(own, network, artifact, origin="https://zoo.example")
    tally(db, WORKLOAD.key, CLASS, rule)
    assert len(denied(db)) == (1 if narrow is Trust.APPLICATIONS else 0)


def test_a_network_that_reports_without_end_is_told_to_wait(
    settings: Settings, db: Connection
) -> None:
    few = settings.model_copy(update={"failures_per_network_per_day": 1})
    assert page_failure(few, 1, artifact_of(db, SECOND))[0] == 202
    status, problem = page_failure(few, 1, artifact_of(db, THIRD))
    assert status == 429
    assert "1 failures within a day" in problem["detail"]


@pytest.mark.parametrize(
    ("changes", "status", "words"),
    [
        ({"artifact": "0" * 64}, 404, "read the manifest again"),
        ({"workload": "relu:f32:n4"}, 404, "read the manifest again"),
        ({"device_class": "nonsense"}, 422, "is malformed"),
        ({"stage": "network"}, 422, "stage"),
        ({"detail": "\0"}, 422, "detail"),
    ],
)
def test_a_report_of_no_sense_is_refused_with_the_reason(
    settings: Settings, db: Connection, changes: dict[str, Any], status: int, words: str
) -> None:
    found = page_failure(settings, 1, artifact_of(db, SECOND), **changes)
    assert found[0] == status
    assert words in found[1]["detail"]
    assert db.execute("SELECT count(*) FROM page_failure").fetchone() == (0,)


def test_strangers_cannot_decide(http: TestClient, db: Connection) -> None:
    body = {
        "artifact": artifact_of(db, SECOND),
        "device_class": str(CLASS),
        "denied": True,
        "reason": "mischief",
    }
    assert http.put("/v1/denied", json=body).status_code == 401
    assert denied(db) == []
    unknown = {**body, "artifact": "0" * 64}
    assert http.put("/v1/denied", json=unknown, headers=OPERATOR).status_code == 404


def test_the_first_digits_of_an_artifact_name_it_where_no_other_begins_so(
    http: TestClient, db: Connection
) -> None:
    artifact = artifact_of(db, SECOND)
    assert decide(http, artifact[:8], denied=True)["artifact"] == artifact
    db.execute(
        "INSERT INTO artifact (sha256, target, body) VALUES (%s, 'wasm', '')",
        (artifact[:8] + "0" * 56,),
    )
    body = {"device_class": str(CLASS), "denied": True, "reason": "why"}
    several = http.put("/v1/denied", json={**body, "artifact": artifact[:8]}, headers=OPERATOR)
    assert several.status_code == 422
    assert "write more of the hash" in several.json()["detail"]
    short = http.put("/v1/denied", json={**body, "artifact": artifact[:7]}, headers=OPERATOR)
    assert short.status_code == 422
    assert decide(http, artifact[:20], denied=False)["artifact"] == artifact


def test_a_module_of_several_kernels_is_not_denied_as_if_it_were_one(
    http: TestClient, db: Connection
) -> None:
    """Pages see its hash in what they fetch, and nothing that is served names it as a kernel."""
    execute(db, models.store_module("0" * 64, TargetKind.WASM, b"module"))
    body = {"artifact": "0" * 64, "device_class": str(CLASS), "denied": True, "reason": "wrong"}
    refused = http.put("/v1/denied", json=body, headers=OPERATOR)
    assert refused.status_code == 422, refused.text
    assert "links several kernels or packs weights for one" in refused.json()["detail"]
    assert denied(db) == []


def test_a_default_that_honest_agents_time_others_beside_is_denied_by_no_eight_networks(
    come: Crowd, db: Connection
) -> None:
    """Eight who say that it fails, beside eight who were not lent it and time what they are lent in
    turn with it."""
    compile_row(db, make_candidate(3))
    for network in range(8):
        agent = come(100 + network)
        lease = agent.lease(limit=2).json()
        lent = [each["candidate"] for each in lease["candidates"]]
        salt = int(lease["lease"])
        others = [timed(lease, each, 1000.0, salt) for each in lent if each != DEFAULT]
        broken = [failure(each, "run") for each in lent if each == DEFAULT]
        agent.report(lease, [*others, *broken])
        verify_lease(db, salt)
    honest = db.execute("SELECT id FROM identity").fetchall()
    db.execute("DELETE FROM measurement WHERE candidate_id = %s", (DEFAULT,))
    for network in range(8):
        fail(come(network), db, DEFAULT)
    assert len(honest) == 8
    assert denied(db) == []


@pytest.mark.usefixtures("one_issue_time")
def test_what_a_class_is_never_to_run_is_told_signed(http: TestClient, db: Connection) -> None:
    """Attack: an old signed manifest. A page that pins keys asks what was denied since."""
    path, artifact = f"/v1/denied/{CLASS}", artifact_of(db, DEFAULT)
    assert http.get(path).json()["artifacts"] == []
    decide(http, artifact, denied=True)
    eventually(lambda: http.get(path).json()["artifacts"] == [artifact], "it is told")
    told = http.get(path)
    document = told.json()
    assert (document["device_class"], document["signatures"]) == (str(CLASS), [])
    assert document["serial"] >= http.get(f"/v1/zoo/{WORKLOAD.key}/{CLASS}").json()["serial"]
    assert http.get(path, headers={"If-None-Match": told.headers["ETag"]}).status_code == 304
    assert http.get(f"/v1/denied/0{str(CLASS)[1:]}").json()["artifacts"] == []
    decide(http, artifact, denied=False)
    eventually(lambda: http.get(path).json()["artifacts"] == [], "it is allowed")
