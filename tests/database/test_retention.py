"""Old rows are removed in batches, and nothing that the zoo stands on goes with them."""

from dataclasses import asdict
from typing import Any

import pytest
from fastapi.testclient import TestClient
from psycopg import sql

from kernelzoo.domain.device import DeviceClass
from kernelzoo.store import cost_models, retention
from kernelzoo.store.blocking import fetch_all, fetch_one
from services.aggregator.publishing import Rule
from tests.database.client import Agent, open_agent
from tests.database.conftest import RELAXED, WORKLOAD, Connection, make_candidate
from tests.database.crowd import paper_crowd
from tests.database.rows_read import rows_read
from tests.database.test_zoo import manifest_entry, measure_and_vote
from tests.reports import all_ok
from tests.running import eventually
from workers import learning, maintenance
from workers.aggregating import tally, verify_lease

DAYS = 180
RANKING = [each.candidate_id for each in (make_candidate(2, RELAXED), *map(make_candidate, (0, 1)))]
TABLES = ("measurement", "lease_item", "lease", "ballot", "agent_session", "identity")


def age(db: Connection, days: int = DAYS + 1) -> None:
    """Everything happened that much earlier."""
    for table, columns in {
        "measurement": ("created_at",),
        "lease": ("created_at", "expires_at"),
        "ballot": ("filed_at",),
        "agent_session": ("created_at",),
        "identity": ("created_at",),
        "cost_model": ("trained_at",),
    }.items():
        for column in columns:
            earlier = sql.SQL("UPDATE {} SET {} = {} - make_interval(days => %s)")
            names = (table, column, column)
            db.execute(earlier.format(*map(sql.Identifier, names)), (days,))


def remove(db: Connection) -> int:
    """All batches of one run; how many there were."""
    again, batches = 0, 0
    while (following := maintenance.remove_old(db, again, days=DAYS, quorum=0)) is not None:
        again, batches = following, batches + 1
    return batches


def rows(db: Connection) -> dict[str, int]:
    found = {}
    for table in TABLES:
        count = sql.SQL("SELECT count(*) FROM {}").format(sql.Identifier(table))
        row = db.execute(count).fetchone()
        assert row is not None
        found[table] = int(row[0])
    return found


def vote(agent: Agent, db: Connection) -> None:
    """For what it was lent, which is not all: agents of a class share the space."""
    measure(agent, db)
    rows = db.execute(
        "SELECT candidate_id FROM measurement WHERE lease_id = (SELECT max(id) FROM lease)"
    ).fetchall()
    ranking = [candidate for candidate in RANKING if (candidate,) in rows]
    assert agent.vote(WORKLOAD.key, ranking).status_code == 202
    tally(
        db, WORKLOAD.key, DeviceClass.parse(agent.device_class), Rule(quorum=2, malicious_share=0)
    )


def measured(db: Connection) -> dict[str, list[int]]:
    """The leases on which each candidate was measured, the oldest first."""
    return dict(
        db.execute(
            "SELECT candidate_id, array_agg(lease_id ORDER BY lease_id) FROM measurement GROUP BY 1"
        ).fetchall()
    )


def voters(http: TestClient, db: Connection, number: int) -> list[Agent]:
    agents = [open_agent(http) for _ in range(number)]
    for agent in agents:
        measure_and_vote(agent, db, RANKING)
    return agents


def measure(agent: Agent, db: Connection) -> None:
    lease = agent.lease().json()
    assert agent.report(lease, all_ok(lease)).status_code == 202
    verify_lease(db, int(lease["lease"]))


@pytest.mark.usefixtures("job_id")
class TestOfOneJob:
    def test_what_is_younger_stays(self, http: TestClient, db: Connection) -> None:
        voters(http, db, 1)
        measure(open_agent(http), db)
        age(db, DAYS - 1)
        before = rows(db)
        remove(db)
        assert rows(db) == before

    def test_what_a_served_entry_and_its_vote_stand_on_stays_however_old(
        self, http: TestClient, db: Connection
    ) -> None:
        agent, *_ = voters(http, db, 3)
        age(db, 1000)
        served, before = manifest_entry(http, agent.device_class), rows(db)
        assert served["state"] == "confirmed"
        remove(db)
        assert rows(db) == before
        tally(
            db,
            WORKLOAD.key,
            DeviceClass.parse(agent.device_class),
            Rule(quorum=2, malicious_share=0),
        )
        assert manifest_entry(http, agent.device_class) == served

    def test_leases_that_nobody_answered_go_with_their_sessions_and_identities(
        self, http: TestClient, db: Connection
    ) -> None:
        for _ in range(3):
            assert open_agent(http).lease().status_code == 200
        open_agent(http, rho="r1-1")
        age(db)
        remove(db)
        assert set(rows(db).values()) == {0}
        assert db.execute("SELECT count(*) FROM device_class").fetchone() == (0,)
        assert db.execute("SELECT count(*) FROM device").fetchone() == (0,)

    def test_sessions_that_were_lent_nothing_go_after_a_week(
        self, http: TestClient, db: Connection
    ) -> None:
        open_agent(http)
        kept = open_agent(http)
        measure(kept, db)
        age(db, retention.UNUSED_DAYS + 1)
        remove(db)
        assert (rows(db)["agent_session"], rows(db)["identity"]) == (1, 1)

    def test_of_measurements_without_a_ballot_the_latest_of_each_kernel_stay(
        self, http: TestClient, db: Connection, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(maintenance, "STANDING", 2)
        agents = [open_agent(http) for _ in range(6)]
        for agent in agents:
            measure(agent, db)
        before, total = measured(db), rows(db)["measurement"]
        assert any(len(leases) > 2 for leases in before.values())
        age(db)
        remove(db)
        assert measured(db) == {kernel: leases[-2:] for kernel, leases in before.items()}
        told = http.get("/v1/devices").json()["devices"][0]
        assert (told["agents"], told["measurements"]) == (6, total), "what was stays counted"

    def test_old_ballots_go_once_enough_newer_ones_are_there_and_the_entry_is_served_on(
        self, http: TestClient, db: Connection, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(maintenance, "STANDING", 4)
        agents = [open_agent(http) for _ in range(6)]
        for agent in agents:
            vote(agent, db)
        served = manifest_entry(http, agents[0].device_class)
        assert served["state"] == "confirmed"
        age(db)
        remove(db)
        assert rows(db)["ballot"] == 4
        tally(
            db,
            WORKLOAD.key,
            DeviceClass.parse(agents[0].device_class),
            Rule(quorum=2, malicious_share=0),
        )

        def entry() -> dict[str, Any]:
            return manifest_entry(http, agents[0].device_class)

        assert served["evidence"]["ballots"] == 6
        # The gateway forgets the manifest that it has answered when it hears of the change.
        eventually(lambda: entry()["evidence"]["ballots"] == 4, "the evidence that is left")
        after = entry()
        assert (after["state"], after["version"]) == (served["state"], served["version"])
        assert after["kernel"] == served["kernel"]

    def test_what_was_set_aside_goes_and_what_waits_for_its_verdict_does_not(
        self, http: TestClient, db: Connection
    ) -> None:
        aside, waiting = open_agent(http), open_agent(http)
        measure(aside, db)
        db.execute("UPDATE measurement SET verdict = 'quarantined'")
        lease = waiting.lease().json()
        waiting.report(lease, all_ok(lease))
        age(db)
        remove(db)
        left = db.execute("SELECT DISTINCT verdict, lease_id FROM measurement").fetchall()
        assert left == [("pending", int(lease["lease"]))]

    def test_a_batch_looks_at_a_few_leases_and_the_next_goes_on_from_there(
        self, http: TestClient, db: Connection, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(retention, "BATCH", {"lease": 2, "agent_session": 2})
        for number in range(5):
            assert open_agent(http, rho=f"r1-{number:03b}").lease().status_code == 200
        age(db)
        assert maintenance.remove_old(db, 0, days=DAYS, quorum=1) is not None
        assert rows(db)["lease"] == 3
        assert remove(db) >= 2
        assert set(rows(db).values()) == {0}

    def test_of_what_was_measured_later_a_batch_reads_as_much_as_stays(
        self, http: TestClient, db: Connection
    ) -> None:
        for _ in range(6):
            measure(open_agent(http), db)
        age(db)
        ((first, own, every),) = db.execute(
            """
            SELECT lease_id, count(*), sum(count(*)) OVER () FROM measurement
            GROUP BY 1 ORDER BY 1 LIMIT 1
            """
        ).fetchall()
        standing = 2
        asked = retention.remove_measurements(first - 1, first, DAYS, standing)
        read = rows_read(db, asked, "measurement")
        assert read <= own * (1 + standing) < every

    def test_what_was_kept_is_looked_at_again_a_few_batches_in_a_run(
        self, http: TestClient, db: Connection, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(retention, "BATCH", {**retention.BATCH, "lease": 2})
        monkeypatch.setattr(maintenance, "STANDING", 2)
        for _ in range(6):
            measure(open_agent(http), db)
        leases = rows(db)["lease"]
        db.execute("UPDATE measurement SET verdict = 'pending'")
        age(db)
        remove(db)
        assert rows(db)["lease"] == leases, "all of them wait for a verdict"
        db.execute("UPDATE measurement SET verdict = 'rejected'")
        monkeypatch.setattr(maintenance, "AGAIN", 0)
        remove(db)
        assert rows(db)["lease"] == leases
        monkeypatch.setattr(maintenance, "AGAIN", 1)
        remove(db)
        assert rows(db)["lease"] == leases - 2
        for _ in range(leases):
            remove(db)
        assert rows(db)["lease"] == 0

    def test_sampled_entries_are_not_kept_once_they_are_judged(
        self, http: TestClient, db: Connection
    ) -> None:
        agent = open_agent(http)
        lease = agent.lease().json()
        agent.report(lease, all_ok(lease))
        before = _bytes(db)
        verify_lease(db, int(lease["lease"]))
        assert db.execute(
            "SELECT DISTINCT verdict, cardinality(sampled_entries) FROM measurement"
        ).fetchall() == [("verified", 0)]
        assert before - _bytes(db) > 64 * 8 * len(lease["candidates"]) * 0.9


def _bytes(db: Connection) -> int:
    row = db.execute("SELECT sum(pg_column_size(m.*)) FROM measurement m").fetchone()
    assert row is not None
    return int(row[0])


def test_the_cost_model_learns_from_the_same_and_is_not_trained_later_than_before(
    db: Connection,
) -> None:
    paper_crowd(db)
    learning.train(db, at_once=False)
    age(db)
    learned: list[dict[str, Any]] = [asdict(row) for row in fetch_all(db, cost_models.timed(1000))]
    remove(db)
    assert [asdict(row) for row in fetch_all(db, cost_models.timed(1000))] == learned
    db.execute("DELETE FROM measurement WHERE lease_id % 2 = 0")
    growth = fetch_one(db, cost_models.growth())
    assert growth is not None
    assert growth.trained_with == growth.measurements
