"""The times that order what a page tries are the latest, as of the last count of ballots: to list
candidates reads no measurement, and to note their times none but those."""

from statistics import median

import pytest

from fixtures.analytic import CORES
from kernelzoo.domain.target import TargetKind
from kernelzoo.store import queue
from kernelzoo.store.blocking import execute, fetch_all
from kernelzoo.store.migrate import MIGRATIONS
from services.aggregator.publishing import Rule
from tests.database.conftest import Connection
from tests.database.crowd import SHAPES, paper_crowd
from tests.database.rows_read import rows_read
from workers import aggregating

LATEST = 2
CLASS = CORES[0].probed.device_class


def test_a_candidate_is_expected_to_take_its_latest_times_and_only_these_are_read(
    db: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue, "TIMED_BY", LATEST)
    paper_crowd(db)
    db.execute("UPDATE measurement SET created_at = now() - random() * interval '9 days'")
    db.execute("UPDATE measurement SET verdict = 'rejected' WHERE random() < 0.2")
    asked = queue.queued([each.key for each in SHAPES], CLASS, "")
    for shape in SHAPES:
        noted = queue.note_times(shape.key, TargetKind.WASM)
        own = db.execute("SELECT count(*) FROM candidate WHERE workload_key = %s", (shape.key,))
        assert 0 < rows_read(db, noted, "measurement") <= LATEST * own.fetchall()[0][0]
        execute(db, noted)
    found = fetch_all(db, asked)
    assert len(found) > len(SHAPES)
    for row in found:
        times = db.execute(
            "SELECT relative_time FROM measurement WHERE candidate_id = %s"
            " AND outcome = 'ok' AND verdict = 'verified' ORDER BY created_at DESC LIMIT %s",
            (row.candidate_id, LATEST),
        ).fetchall()
        assert row.relative_time == (median(time for (time,) in times) if times else None)
    assert rows_read(db, asked, "measurement") == 0


def test_times_are_noted_as_ballots_are_counted_and_not_written_where_nothing_changed(
    db: Connection,
) -> None:
    paper_crowd(db)
    asked = queue.queued([SHAPES[0].key], CLASS, "")
    assert {row.relative_time for row in fetch_all(db, asked)} == {None}
    rule = Rule(quorum=5, malicious_share=0.2)
    aggregating.tally(db, SHAPES[0].key, CLASS, rule)
    assert None not in {row.relative_time for row in fetch_all(db, asked)}
    noted = queue.note_times(SHAPES[0].key, TargetKind.WASM)
    assert execute(db, noted) == 0, "nothing is new"
    db.execute("UPDATE measurement SET verdict = 'rejected'")
    assert execute(db, noted) > 0
    assert {row.relative_time for row in fetch_all(db, asked)} == {None}, "none counts any more"


def test_the_migration_notes_the_times_of_what_was_measured_before_it(
    db: Connection, owner: Connection
) -> None:
    paper_crowd(db)
    for shape in SHAPES:
        execute(db, queue.note_times(shape.key, TargetKind.WASM))
    every = "SELECT * FROM candidate_time ORDER BY candidate_id"
    noted = db.execute(every).fetchall()
    owner.execute("DROP TABLE candidate_time")
    owner.execute((MIGRATIONS / "0066_candidate_times.sql").read_bytes())
    assert owner.execute(every).fetchall() == noted != []
