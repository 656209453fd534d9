"""Counts of a job's measurements, kept as they come, against what the rows themselves say."""

import pytest
from fastapi.testclient import TestClient

from kernelzoo.domain.measurement import Verdict
from kernelzoo.store import erasure, measurements, tuning
from kernelzoo.store.blocking import execute, fetch_all, fetch_one
from kernelzoo.store.measurements import Judged
from kernelzoo.store.migrate import MIGRATIONS
from tests.database.client import Agent, open_agent
from tests.database.conftest import WORKLOAD, Connection
from tests.database.rows_read import rows_read
from tests.reports import failure, ok

COUNTED = """
    SELECT count(DISTINCT m.identity_id), count(DISTINCT m.candidate_id),
           count(*) FILTER (WHERE m.outcome = 'ok' AND m.verdict <> 'rejected'),
           count(*) FILTER (WHERE m.outcome = 'run'),
           count(*) FILTER (WHERE m.verdict = 'rejected'),
           min(m.best_ns) FILTER (WHERE m.verdict IN ('pending', 'verified')),
           min(l.created_at), max(m.created_at)
    FROM measurement m JOIN lease l ON l.id = m.lease_id
"""
KEPT = """
    SELECT agents, candidates, ok, run, rejected, best_ns, begun_at, last_at FROM job_progress
"""
IMPROVED = """
    SELECT round, best_ns FROM (
        SELECT m.best_ns, m.verdict, row_number() OVER made AS round,
               min(m.best_ns) FILTER (WHERE m.verdict <> 'rejected')
                   OVER (made ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before_ns
        FROM measurement m WINDOW made AS (ORDER BY m.created_at, m.candidate_id, m.lease_id)
    ) rounds
    WHERE verdict <> 'rejected' AND best_ns < coalesce(before_ns, 'infinity') ORDER BY round
"""


def report(agent: Agent, *times_ns: float | None) -> list[tuple[str, str]]:
    """Borrows as many kernels and says that they took so long, or failed; each in a lease."""
    told = []
    for time_ns in times_ns:
        lease = agent.lease(limit=1).json()
        (name,) = (kernel["candidate"] for kernel in lease["candidates"])
        said = failure(name, "run") if time_ns is None else ok(lease, name, time_ns)
        assert agent.report(lease, [said]).status_code == 202
        told.append((lease["lease"], name))
    return told


def is_kept(db: Connection) -> None:
    assert db.execute(KEPT).fetchall() == db.execute(COUNTED).fetchall()
    kept = db.execute("SELECT round, best_ns FROM improvement ORDER BY round").fetchall()
    assert kept == db.execute(IMPROVED).fetchall()


@pytest.mark.parametrize("verdict", [Verdict.REJECTED, Verdict.QUARANTINED, Verdict.UNJUDGED])
def test_what_is_not_believed_is_taken_back(
    http: TestClient, db: Connection, job_id: int, verdict: Verdict
) -> None:
    one, other = open_agent(http), open_agent(http)
    report(one, 9e5, None)
    ((lease, name),) = report(other, 5e5)
    report(other, 7e5)
    report(one, 6e5)
    is_kept(db)
    progress = fetch_one(db, tuning.progress(job_id=job_id))
    assert progress is not None
    assert (progress.measurements, progress.agents, progress.best_ns) == (5, 2, 5e5)
    execute(
        db,
        measurements.judge(int(lease), [Judged(candidate_id=name, verdict=verdict, detail="why")]),
    )
    is_kept(db)
    progress = fetch_one(db, tuning.progress(job_id=job_id))
    assert progress is not None
    assert (progress.measurements, progress.best_ns) == (5, 6e5)


@pytest.mark.usefixtures("job_id")
def test_an_agent_that_reports_a_lease_in_parts_is_counted_once(
    http: TestClient, db: Connection
) -> None:
    for agent in (open_agent(http), open_agent(http)):
        lease = agent.lease(limit=3).json()
        names = [kernel["candidate"] for kernel in lease["candidates"]]
        assert len(names) > 1
        for name in names:
            assert agent.report(lease, [ok(lease, name)]).status_code == 202
    is_kept(db)


@pytest.mark.usefixtures("job_id")
def test_agents_that_were_counted_again_are_counted_anew_where_all_that_they_measured_is_there(
    http: TestClient, db: Connection, owner: Connection
) -> None:
    recount = (MIGRATIONS / "0064_agents_counted_once.sql").read_bytes()
    report(open_agent(http), 9e5, 8e5)
    ((lease, name),) = report(open_agent(http), 7e5)
    db.execute("UPDATE job_progress SET agents = 53")
    owner.execute(recount)
    is_kept(db)
    db.execute("UPDATE job_progress SET agents = 53")
    db.execute("DELETE FROM measurement WHERE (lease_id, candidate_id) = (%s, %s)", (lease, name))
    owner.execute(recount)
    assert db.execute("SELECT agents FROM job_progress").fetchall() == [(53,)]


def test_standing_ballots_are_counted(http: TestClient, db: Connection, job_id: int) -> None:
    def counted() -> int:
        progress = fetch_one(db, tuning.progress(job_id=job_id))
        assert progress is not None
        return progress.ballots

    one, other = open_agent(http), open_agent(http)
    for agent in (one, other):
        ((_, name),) = report(agent, 1e6)
        assert agent.vote(WORKLOAD.key, [name]).status_code == 202
        assert agent.vote(WORKLOAD.key, [name]).status_code == 202
    assert counted() == 2
    voter = db.execute("SELECT identity_id FROM ballot LIMIT 1").fetchone()
    assert voter is not None
    fetch_all(db, erasure.ballots(voter[0]))
    assert counted() == 1


def test_how_far_a_job_has_come_is_told_without_a_look_at_what_was_measured(
    http: TestClient, db: Connection, job_id: int
) -> None:
    """Attack: one job is asked for again and again, however much was measured for it."""
    report(open_agent(http), 9e5, 7e5, 8e5)
    for asked in (tuning.progress(job_id=job_id), tuning.progress()):
        progress = fetch_one(db, asked)
        assert progress is not None
        assert progress.measurements == 3
        for table in ("measurement", "lease", "lease_item"):
            assert rows_read(db, asked, table) == 0
