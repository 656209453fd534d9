"""The space, and what an honest agent does with what it is lent of it."""

from typing import Any

from tests.database.client import Agent
from tests.database.conftest import WORKLOAD, Connection, make_candidate
from tests.reports import ok
from workers.aggregating import verify_lease

SIZE = 24
SPACE = tuple(make_candidate(tile) for tile in range(SIZE))
IDS = tuple(candidate.candidate_id for candidate in SPACE)

Lease = dict[str, Any]


def lent(lease: Lease) -> list[str]:
    return [kernel["candidate"] for kernel in lease["candidates"]]


def take(agent: Agent, limit: int = 8) -> Lease:
    answer = agent.lease(limit)
    assert answer.status_code == 200, answer.text
    lease: Lease = answer.json()
    return lease


def time_of(candidate: str) -> float:
    """Later ones of the space are faster."""
    return 1000.0 - IDS.index(candidate)


def answer(agent: Agent, lease: Lease, db: Connection) -> None:
    """Honestly, and the server finds it right."""
    report = [ok(lease, candidate, time_of(candidate)) for candidate in lent(lease)]
    if report:
        assert agent.report(lease, report).status_code == 202
        verify_lease(db, int(lease["lease"]))


def work(agent: Agent, db: Connection, limit: int = 8) -> list[Lease]:
    """Measures what it is lent until there is nothing to do now."""
    taken: list[Lease] = []
    while (found := agent.lease(limit)).status_code == 200:
        taken.append(found.json())
        answer(agent, taken[-1], db)
    return taken


def roles(db: Connection, lease: Lease) -> dict[str, str]:
    rows = db.execute(
        "SELECT candidate_id, role FROM lease_item WHERE lease_id = %s", (lease["lease"],)
    )
    return dict(rows.fetchall())


def serve(db: Connection, device_class: str, candidate: str, version: int = 1) -> None:
    """Serves a candidate as a confirmed entry of a class."""
    db.execute(
        "INSERT INTO zoo_entry (workload_key, device_class, version, candidate_id, state, ballots,"
        " weight, total_weight, relative_time) VALUES (%s, %s, %s, %s, 'confirmed', 5, 5, 5, 0.5)",
        (WORKLOAD.key, device_class, version, candidate),
    )
