"""Strangers who claim or measure little of a class before honest agents come to it."""

from typing import Any

import pytest

from fixtures.rows import compile_row
from tests.database.client import Agent
from tests.database.conftest import Connection, make_candidate
from tests.database.strangers import Crowd, timed
from tests.reports import failure
from workers.aggregating import verify_lease

pytestmark = pytest.mark.usefixtures("job_id")

HONEST = 8
QUICK_NS = 10.0
"""4.8 GFLOP/s: more than a class with a peak of 0.5 may do, and less than honest claims allow."""


def work(
    agent: Agent, db: Connection, best_ns: float, *, slower: float = 1.0, fails: bool = False
) -> None:
    """Everything that it is lent, alike; `slower` is the device, its reference included."""
    while (found := agent.lease()).status_code == 200:
        lease = found.json()
        report: list[dict[str, Any]] = []
        for kernel in lease["candidates"]:
            right = timed(lease, kernel["candidate"], best_ns * slower, int(lease["lease"]))
            slow = {"reference_ns": [slower * ns for ns in right["reference_ns"]]}
            report.append(failure(kernel["candidate"], "run") if fails else {**right, **slow})
        if not report:
            continue
        assert agent.report(lease, report).status_code == 202
        verify_lease(db, int(lease["lease"]))


def honest_ones_work(come: Crowd, db: Connection) -> None:
    for network in range(100, 100 + HONEST):
        work(come(network), db, QUICK_NS)


def wronged(db: Connection) -> int:
    """Honest identities of which anything is not counted."""
    row = db.execute(
        "SELECT count(DISTINCT i.id) FROM identity i JOIN measurement m ON m.identity_id = i.id"
        " WHERE m.best_ns = %s AND (i.failed_at IS NOT NULL OR m.verdict <> 'verified')",
        (QUICK_NS,),
    ).fetchone()
    assert row is not None
    return int(row[0])


def test_three_networks_that_open_a_session_each_and_measure_nothing_quarantine_nobody(
    come: Crowd, db: Connection
) -> None:
    """Three requests. All eight honest strangers who came later were quarantined."""
    compile_row(db, make_candidate(3))
    for network in range(3):
        come(network, peak_gflops=0.5)
    honest_ones_work(come, db)
    assert wronged(db) == 0


def test_nine_networks_that_measure_and_claim_little_withdraw_nothing_of_a_settled_class(
    come: Crowd, db: Connection
) -> None:
    """Nine networks, nine identities and a whole lease of each, against eight who were there before
    and go on. What these had measured was withdrawn.
    """
    honest = [come(network) for network in range(100, 100 + HONEST)]
    for agent in honest:
        work(agent, db, QUICK_NS)
    for network in range(9):
        work(come(network, peak_gflops=0.5), db, 2 * QUICK_NS)
    compile_row(db, make_candidate(3))
    for agent in honest:
        work(agent, db, QUICK_NS)
    assert wronged(db) == 0


def test_three_networks_that_call_the_reference_a_hundred_times_slower_quarantine_nobody(
    come: Crowd, db: Connection
) -> None:
    """Three networks, three identities and a whole lease of each, on a class that is new."""
    compile_row(db, make_candidate(3))
    for network in range(3):
        work(come(network), db, QUICK_NS, slower=100.0)
    honest_ones_work(come, db)
    assert wronged(db) == 0


def test_the_claim_of_a_session_alone_loosens_nothing_either(come: Crowd, db: Connection) -> None:
    """An attacker with three more sessions, of other networks and with a great peak each."""
    for network in range(3):
        come(network, peak_gflops=1e6)
    attacker = come(9, peak_gflops=1.0)
    work(attacker, db, QUICK_NS)
    row = db.execute("SELECT DISTINCT verdict FROM measurement").fetchall()
    assert row == [("quarantined",)]
