"""The times that order what a page tries are the latest, and no others are read."""

from statistics import median

import pytest

from fixtures.analytic import CORES
from kernelzoo.store import queue
from kernelzoo.store.blocking import fetch_all
from tests.database.conftest import Connection
from tests.database.crowd import SHAPES, paper_crowd
from tests.database.rows_read import rows_read

LATEST = 2


def test_a_candidate_is_expected_to_take_its_latest_times_and_only_these_are_read(
    db: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue, "TIMED_BY", LATEST)
    paper_crowd(db)
    db.execute("UPDATE measurement SET created_at = now() - random() * interval '9 days'")
    db.execute("UPDATE measurement SET verdict = 'rejected' WHERE random() < 0.2")
    asked = queue.queued([each.key for each in SHAPES], CORES[0].probed.device_class, "")
    found = fetch_all(db, asked)
    assert len(found) > len(SHAPES)
    for row in found:
        times = db.execute(
            "SELECT relative_time FROM measurement WHERE candidate_id = %s"
            " AND outcome = 'ok' AND verdict = 'verified' ORDER BY created_at DESC LIMIT %s",
            (row.candidate_id, LATEST),
        ).fetchall()
        assert row.relative_time == (median(time for (time,) in times) if times else None)
    assert rows_read(db, asked, "measurement") <= LATEST * len(found)
