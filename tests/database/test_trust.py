"""Strangers through gateway and worker: who is believed, and what those are told who are not."""

from typing import Any

import pytest

from fixtures.rows import compile_row
from kernelzoo.domain.device import DeviceClass
from kernelzoo.domain.trust import RELEASING
from services.aggregator.publishing import Rule
from services.aggregator.reported_times import CONTRADICTED_BY
from tests.database.client import Agent
from tests.database.conftest import RELAXED, WORKLOAD, Connection, make_candidate
from tests.database.strangers import Crowd, answer, timed
from workers.aggregating import tally, verify_lease

pytestmark = pytest.mark.usefixtures("job_id")

FIRST, SECOND, THIRD = (
    candidate.candidate_id
    for candidate in (make_candidate(0), make_candidate(1), make_candidate(2, RELAXED))
)
IMPOSSIBLE_NS = 0.1


def make_control(db: Connection, lease: dict[str, Any], candidate: str | None) -> None:
    """The lease has this one control, or none, whatever was drawn."""
    lent = [kernel["candidate"] for kernel in lease["candidates"]]
    assert candidate is None or candidate in lent
    db.execute(
        "UPDATE lease_item SET role = CASE WHEN candidate_id = %s THEN 'control' ELSE 'explore' END"
        " WHERE lease_id = %s",
        (candidate, int(lease["lease"])),
    )


def verdicts(db: Connection) -> dict[str, int]:
    rows = db.execute("SELECT verdict, count(*) FROM measurement GROUP BY verdict")
    return dict(rows.fetchall())


def record(db: Connection) -> tuple[int, bool]:
    """The record of the latest identity."""
    row = db.execute(
        "SELECT valid_in_row, failed_at IS NOT NULL FROM identity ORDER BY created_at DESC LIMIT 1"
    ).fetchone()
    assert row is not None
    return row[0], row[1]


def honest_crowd(come: Crowd, db: Connection, size: int) -> None:
    """Each measures all, at a half of the reference; votes for nothing."""
    compile_row(db, make_candidate(3))
    for network in range(size):
        agent = come(network)
        while (found := agent.lease()).status_code == 200:
            lease = found.json()
            if lease["candidates"]:
                answer(agent, db, lease, {}, salt=int(lease["lease"]))
    rows = db.execute(
        "SELECT DISTINCT count(DISTINCT identity_id) FROM measurement GROUP BY candidate_id"
    )
    assert rows.fetchall() == [(size,)]


def test_a_whole_valid_lease_is_counted_once_however_it_is_reported(
    come: Crowd, db: Connection
) -> None:
    agent = come(1)
    lease = agent.lease().json()
    for place, kernel in enumerate(lease["candidates"]):
        assert record(db) == (0, False)
        agent.report(lease, [timed(lease, kernel["candidate"], 1000.0, place + 1)])
        verify_lease(db, int(lease["lease"]))
    assert record(db) == (1, False)
    verify_lease(db, int(lease["lease"]))
    assert record(db) == (1, False)


def test_an_impossible_time_takes_its_lease_out_of_the_count_and_nothing_before_it(
    come: Crowd, db: Connection
) -> None:
    agent = come(1)
    answer(agent, db, agent.lease(limit=1).json(), {}, salt=1)
    assert verdicts(db) == {"verified": 1}
    answer(agent, db, agent.lease().json(), {SECOND: IMPOSSIBLE_NS}, salt=2)
    assert verdicts(db) == {"verified": 1, "quarantined": 2}
    assert record(db) == (0, True)
    row = db.execute("SELECT detail FROM measurement WHERE detail <> ''").fetchone()
    assert row is not None
    assert "envelope" in row[0]


def test_a_control_that_is_far_off_its_class_fails_and_an_explored_kernel_does_not(
    come: Crowd, db: Connection
) -> None:
    honest_crowd(come, db, CONTRADICTED_BY)
    for network, is_control in ((8, False), (9, True)):
        agent = come(network)
        lease = agent.lease().json()
        make_control(db, lease, SECOND if is_control else None)
        answer(agent, db, lease, {SECOND: 700.0}, salt=100 + network)
        assert record(db) == ((0, True) if is_control else (1, False))


def test_a_control_that_three_networks_called_slow_costs_no_honest_device_anything(
    come: Crowd, db: Connection
) -> None:
    """Three networks, before anybody else, made who measured it truly an attacker."""
    honest_crowd(come, db, 3)
    agent = come(9)
    lease = agent.lease().json()
    make_control(db, lease, SECOND)
    answer(agent, db, lease, {SECOND: 50.0}, salt=109)
    assert record(db) == (1, False)


def test_a_control_is_judged_beside_its_own_reference(come: Crowd, db: Connection) -> None:
    """A device of half the speed is not an attacker."""
    honest_crowd(come, db, 3)
    agent = come(9)
    lease = agent.lease().json()
    make_control(db, lease, SECOND)
    report = [timed(lease, kernel["candidate"], 2000.0, 109) for kernel in lease["candidates"]]
    slow = [{**each, "reference_ns": [2 * ns for ns in each["reference_ns"]]} for each in report]
    assert agent.report(lease, slow).status_code == 202
    verify_lease(db, int(lease["lease"]))
    assert record(db) == (1, False)


def test_a_control_that_two_networks_know_is_judged_by_nobody(come: Crowd, db: Connection) -> None:
    honest_crowd(come, db, 2)
    agent = come(9)
    lease = agent.lease().json()
    make_control(db, lease, SECOND)
    answer(agent, db, lease, {SECOND: 500.0}, salt=109)
    assert record(db) == (1, False)


def test_a_lease_whose_control_did_not_run_proves_nothing(come: Crowd, db: Connection) -> None:
    agent = come(1)
    lease = agent.lease().json()
    make_control(db, lease, SECOND)
    failure = {
        **timed(lease, SECOND, 1, 1),
        "outcome": "run",
        "samples_ns": [],
        "reference_ns": [],
        "sampled_entries": [],
    }
    others = [timed(lease, each, 1000.0, 1) for each in (FIRST, THIRD)]
    assert agent.report(lease, [failure, *others]).status_code == 202
    verify_lease(db, int(lease["lease"]))
    assert record(db) == (0, False)
    assert verdicts(db) == {"verified": 3}


def test_who_replays_another_lease_is_not_counted(come: Crowd, db: Connection) -> None:
    """There are more samples than an agent takes: of this job's three candidates the second agent
    is lent two.
    """
    samples = [1000.0 + place for place in range(8)]
    reference = [2000.0 + place for place in range(8)]
    for network in (1, 2):
        agent = come(network)
        lease = agent.lease().json()
        report = [
            {
                **timed(lease, kernel["candidate"], 1, 1),
                "samples_ns": [ns + 10 * place for ns in samples],
                "reference_ns": reference,
            }
            for place, kernel in enumerate(lease["candidates"])
        ]
        agent.report(lease, report)
        verify_lease(db, int(lease["lease"]))
    assert verdicts(db) == {"verified": 3, "quarantined": 2}


def ballots_counted(db: Connection, device_class: str) -> int:
    tally(db, WORKLOAD.key, DeviceClass.parse(device_class), Rule(quorum=1, malicious_share=0))
    row = db.execute("SELECT ballots FROM zoo_entry WHERE state <> 'retired'").fetchone()
    return row[0] if row else 0


def test_a_quarantine_ends_with_a_few_valid_leases_whose_measurements_then_count(
    come: Crowd, db: Connection
) -> None:
    agent = come(1)
    answer(agent, db, agent.lease(limit=1).json(), {FIRST: IMPOSSIBLE_NS}, salt=1)
    for lease_number in range(RELEASING):
        assert verdicts(db) == {"quarantined": 1 + lease_number}
        if lease_number == 2:
            compile_row(db, make_candidate(3))
        answer(agent, db, agent.lease(limit=1).json(), {}, salt=2 + lease_number)
    assert verdicts(db) == {"quarantined": 1, "verified": RELEASING}
    assert agent.vote(WORKLOAD.key, [SECOND]).status_code == 202
    assert ballots_counted(db, agent.device_class) == 1


def told(agent: Agent, db: Connection, best_ns: float) -> list[tuple[int, bytes, list[str]]]:
    """All that an agent is told, of which no part is random."""
    first = agent.lease(limit=2).json()
    lent = [kernel["candidate"] for kernel in first["candidates"]]
    report = [timed(first, lent[0], best_ns, 1), timed(first, lent[1], 1000.0, 2)]
    answers = [agent.report(first, report)]
    verify_lease(db, int(first["lease"]))
    answers.append(agent.vote(WORKLOAD.key, lent))
    tally(
        db, WORKLOAD.key, DeviceClass.parse(agent.device_class), Rule(quorum=5, malicious_share=0.2)
    )
    second = agent.lease()
    names = [each["kernel"]["candidate"] for each in second.json()["measured"]]
    answers.append(agent.report(first, report))
    answers.append(agent.vote(WORKLOAD.key, lent[::-1]))
    assert second.status_code == 200
    headers = [
        sorted(f"{k}: {v}" for k, v in each.headers.items() if k != "date") for each in answers
    ]
    bodies = [
        (each.status_code, each.content, header)
        for each, header in zip(answers, headers, strict=True)
    ]
    return [*bodies, (second.status_code, "".join(names).encode(), sorted(second.json()))]


def test_who_is_quarantined_is_answered_to_the_byte_as_who_is_not(
    come: Crowd, db: Connection
) -> None:
    honest, attacker = told(come(1), db, 999.0), told(come(2), db, IMPOSSIBLE_NS)
    assert record(db) == (0, True)
    assert attacker == honest


def test_a_measurement_that_was_rejected_is_answered_as_one_that_was_not(
    come: Crowd, db: Connection
) -> None:
    agent = come(1)
    lease = agent.lease().json()
    report = [timed(lease, each, 1000.0, 1) for each in (FIRST, SECOND, THIRD)]
    report[0]["sampled_entries"][5] += 1
    assert agent.report(lease, report).content == b'{"accepted":3}'
    verify_lease(db, int(lease["lease"]))
    assert verdicts(db) == {"rejected": 1, "quarantined": 2}
    assert agent.vote(WORKLOAD.key, [FIRST]).content == b'{"lines":1}'
    assert ballots_counted(db, agent.device_class) == 0
