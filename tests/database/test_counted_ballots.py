"""Counting the ballots of a key reads what their voters measured of it, and no more."""

from random import Random
from typing import Any

import pytest
from fastapi.testclient import TestClient

from fixtures.rows import compile_row
from kernelzoo.domain.device import DeviceClass
from kernelzoo.domain.target import TargetKind
from kernelzoo.domain.trust import Trust
from kernelzoo.domain.workload import Workload
from kernelzoo.store import ballots
from kernelzoo.store.blocking import fetch_all
from services.tuner.schedules.registry import lite_space
from tests.database.client import SESSION, Agent, open_agent
from tests.database.conftest import Connection, open_space
from tests.database.rows_read import rows_read
from tests.database.sharing.space import lent
from tests.reports import ok
from workers.aggregating import verify_lease

WORKLOADS = tuple(Workload.of("matmul", (16, 16, 16 * n)) for n in (1, 2, 3))
CANDIDATES = 12
VOTERS = 5
VISITS = 3

MEASURED = """
    SELECT b.identity_id, m.candidate_id, min(m.relative_time)
    FROM ballot b
    CROSS JOIN LATERAL (
        SELECT s.engine_name, engine_major(s.engine_version) AS major FROM agent_session s
        WHERE s.identity_id = b.identity_id AND s.device_class = b.device_class
          AND s.created_at <= b.filed_at
        ORDER BY s.id DESC LIMIT 1
    ) cast_in
    JOIN measurement m ON m.identity_id = b.identity_id AND m.device_class = b.device_class
    JOIN candidate c ON c.candidate_id = m.candidate_id AND c.workload_key = b.workload_key
    JOIN lease l ON l.id = m.lease_id
    JOIN agent_session s ON s.id = l.session_id
    WHERE b.workload_key = %s AND b.device_class = %s
      AND m.outcome = 'ok' AND m.verdict = 'verified'
      AND (s.engine_name, engine_major(s.engine_version)) = (cast_in.engine_name, cast_in.major)
    GROUP BY b.identity_id, m.candidate_id
"""
"""By definition, of a key: what its voters measured in the engine of their ballots."""


@pytest.fixture
def crowd(http: TestClient, db: Connection, request: pytest.FixtureRequest) -> DeviceClass:
    """Voters of one class measure, some in two versions of their engine; verdicts are of chance."""
    chance = Random(request.param)
    for workload in WORKLOADS:
        space = list(lite_space(workload, TargetKind.WASM)[:CANDIDATES])
        open_space(db, space)
        for candidate in space:
            compile_row(db, candidate)
    agents = [open_agent(http) for _ in range(VOTERS)]
    for _ in range(VISITS):
        for place, agent in enumerate(agents):
            measure_and_vote(agent, db, chance)
            engine = {**SESSION["engine"], "version": str(chance.choice((156, 157)))}
            agents[place] = open_agent(http, identity=agent.identity, engine=engine)
    db.execute("SELECT setseed(%s)", (chance.random(),))
    db.execute("UPDATE measurement SET verdict = 'rejected' WHERE random() < 0.2")
    return DeviceClass.parse(agents[0].device_class)


def measure_and_vote(agent: Agent, db: Connection, chance: Random) -> None:
    """All that it is lent until there is nothing more, now and then."""
    while (answer := agent.lease(limit=4)).status_code == 200 and chance.random() < 0.8:
        lease: dict[str, Any] = answer.json()
        if not lent(lease):
            break
        report = [ok(lease, each, chance.uniform(500, 2500)) for each in lent(lease)]
        assert agent.report(lease, report).status_code == 202
        verify_lease(db, int(lease["lease"]))
        agent.vote(lease["workload"], lent(lease))


@pytest.mark.parametrize("crowd", range(3), indirect=True)
def test_a_ballot_counts_by_what_its_voter_measured_in_its_engine(
    crowd: DeviceClass, db: Connection
) -> None:
    counted = 0
    for workload in WORKLOADS:
        found = fetch_all(db, ballots.countable(workload.key, crowd, Trust.CROWD))
        times = {
            (row.identity_id, candidate): time
            for row in found
            for candidate, time in zip(row.measured_ids, row.measured_times, strict=True)
        }
        rows = db.execute(MEASURED, (workload.key, str(crowd))).fetchall()
        voters = {row.identity_id for row in found}
        assert times == {(who, what): time for who, what, time in rows if who in voters}
        lines = db.execute(
            "SELECT identity_id, candidate_ids FROM ballot"
            " WHERE workload_key = %s AND device_class = %s",
            (workload.key, str(crowd)),
        ).fetchall()
        measured = {(who, what) for who, what, _ in rows}
        valid = {who: [each for each in ids if (who, each) in measured] for who, ids in lines}
        assert {row.identity_id: row.candidate_ids for row in found} == {
            who: ids for who, ids in valid.items() if ids
        }
        counted += len(times)
    assert counted > VOTERS


@pytest.mark.parametrize("crowd", [0], indirect=True)
def test_no_measurement_of_another_key_is_read_to_count_ballots(
    crowd: DeviceClass, db: Connection
) -> None:
    for workload in WORKLOADS:
        ((own,),) = db.execute(
            """
            SELECT count(*) FROM ballot b
            JOIN measurement m USING (identity_id, device_class)
            JOIN candidate c ON c.candidate_id = m.candidate_id AND c.workload_key = b.workload_key
            WHERE b.workload_key = %s
            """,
            (workload.key,),
        ).fetchall()
        asked = ballots.countable(workload.key, crowd, Trust.CROWD)
        assert rows_read(db, asked, "measurement") <= own
