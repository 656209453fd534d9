"""The table `coverage`: kept by entries, by tallies and by the census, and read by panels."""

import pytest
from fastapi.testclient import TestClient

from kernelzoo.domain.device import DeviceClass
from kernelzoo.domain.zoo import EntryState
from kernelzoo.store import coverage, zoo
from kernelzoo.store.blocking import execute, fetch_all
from kernelzoo.store.zoo import NO_EVIDENCE
from services.aggregator.publishing import Rule
from tests.database.client import open_agent
from tests.database.conftest import WORKLOAD, Connection, make_candidate
from tests.database.rows_read import rows_read
from tests.reports import all_ok
from workers.aggregating import tally
from workers.counting import take_census

STRANGE = "00000000000000{:02x}:r1-0:wasm+simd128"


def covered(db: Connection, device_class: str) -> tuple[object, ...] | None:
    return db.execute(
        "SELECT state, loads, candidate_id FROM coverage"
        " WHERE workload_key = %s AND device_class = %s",
        (WORKLOAD.key, device_class),
    ).fetchone()


def load(db: Connection, name: str, device_class: str, loads: int) -> None:
    db.execute(
        "INSERT INTO page_load (name, device_class, loads) VALUES (%s, %s, %s)"
        " ON CONFLICT (name, device_class) DO UPDATE SET loads = EXCLUDED.loads, last_at = now()",
        (name, device_class, loads),
    )


def test_an_entry_that_comes_or_goes_is_covered_at_once(
    http: TestClient, db: Connection, job_id: int
) -> None:
    assert job_id
    of = DeviceClass.parse(open_agent(http).device_class)
    first, second = make_candidate(0).candidate_id, make_candidate(1).candidate_id
    assert covered(db, str(of)) is None
    execute(db, zoo.publish(WORKLOAD.key, of, first, EntryState.PROVISIONAL, NO_EVIDENCE))
    assert covered(db, str(of)) == ("provisional", 0, first)
    execute(db, zoo.retire(WORKLOAD.key, of))
    assert covered(db, str(of)) == ("missing", 0, None)
    execute(db, zoo.publish(WORKLOAD.key, of, second, EntryState.CONFIRMED, NO_EVIDENCE))
    assert covered(db, str(of)) == ("confirmed", 0, second)


def test_page_loads_of_sets_and_workloads_are_added_up_by_the_census(
    db: Connection, job_id: int
) -> None:
    assert job_id
    db.execute("INSERT INTO workload_set VALUES ('set', 0, %s)", (WORKLOAD.key,))
    page = STRANGE.format(1)
    load(db, "set", page, 3)
    load(db, WORKLOAD.key, page, 4)
    load(db, "no-such-set", page, 5)
    take_census(db)
    assert covered(db, page) == ("missing", 7, None)
    load(db, "set", page, 10)
    take_census(db)
    assert covered(db, page) == ("missing", 14, None)


def test_classes_take_turns_and_of_strange_ones_those_that_ask_most_are_covered(
    db: Connection, job_id: int
) -> None:
    assert job_id
    for number in range(6):
        load(db, WORKLOAD.key, STRANGE.format(number), 10 - number)
    execute(db, coverage.add_page_loads(2))
    assert [covered(db, STRANGE.format(each)) is not None for each in range(6)] == [
        *(True, True, False, False, False, False)
    ]
    execute(db, coverage.add_page_loads(2))
    execute(db, coverage.add_page_loads(2))
    assert all(covered(db, STRANGE.format(each)) for each in range(6))


def test_what_a_class_asked_for_that_nobody_knows_is_forgotten_once_others_ask_more(
    http: TestClient, db: Connection, job_id: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert job_id
    monkeypatch.setattr(coverage, "MOST_STRANGE", 2)
    known = open_agent(http).device_class
    first, second, third = (STRANGE.format(number) for number in range(3))
    for device_class, loads in ((known, 1), (first, 9), (second, 8), (third, 7)):
        load(db, WORKLOAD.key, device_class, loads)

    def rows() -> set[str]:
        execute(db, coverage.add_page_loads(9))
        return {each for (each,) in db.execute("SELECT device_class FROM coverage").fetchall()}

    assert rows() == {known, first, second}
    load(db, WORKLOAD.key, third, 20)
    assert rows() == {known, first, third}
    load(db, WORKLOAD.key, second, 30)
    assert rows() == {known, second, third}
    assert covered(db, second) == ("missing", 30, None)


def test_keys_whose_times_nobody_looked_up_are_found_without_reading_all(
    db: Connection, job_id: int
) -> None:
    assert job_id
    db.execute(
        """
        INSERT INTO coverage (workload_key, device_class, state)
        SELECT %s, lpad(to_hex(n), 16, '0') || ':r1-0:wasm',
               CASE WHEN n %% 10 = 0 THEN 'confirmed' ELSE 'missing' END
        FROM generate_series(1, 200) n
        """,
        [WORKLOAD.key],
    )
    assert rows_read(db, coverage.unnoted(25), "coverage") <= 25
    found = [str(row.device_class) for row in fetch_all(db, coverage.unnoted(25))]
    states = [
        db.execute("SELECT state FROM coverage WHERE device_class = %s", (each,)).fetchone()
        for each in found
    ]
    assert states == [("confirmed",)] * 20 + [("missing",)] * 5


def test_a_tally_notes_what_a_call_takes(http: TestClient, db: Connection, job_id: int) -> None:
    assert job_id
    agent = open_agent(http)
    lease = agent.lease().json()
    agent.report(lease, all_ok(lease))
    db.execute("UPDATE measurement SET verdict = 'verified'")
    rule = Rule(quorum=5, malicious_share=0)
    tally(db, WORKLOAD.key, DeviceClass.parse(agent.device_class), rule)
    noted = db.execute("SELECT state, best_ns, reference_ns FROM coverage").fetchone()
    least = db.execute("SELECT min(ns) FROM measurement, unnest(reference_ns) ns").fetchone()
    assert noted is not None
    assert least is not None
    assert noted == ("missing", None, least[0])
    expected = db.execute(
        "SELECT expected_time(%s, %s)", (WORKLOAD.key, agent.device_class)
    ).fetchone()
    assert expected == least


def measurements_looked_up(db: Connection, device_class: DeviceClass) -> int:
    """Counts the look-ups of measurements that noting the times of the class's key takes."""

    def scans() -> int:
        row = db.execute(
            "SELECT seq_scan + idx_scan FROM pg_stat_xact_user_tables WHERE relname = 'measurement'"
        ).fetchone()
        assert row is not None
        return int(row[0])

    with db.transaction():
        before = scans()
        execute(db, coverage.note_times(WORKLOAD.key, device_class))
        return scans() - before


def test_times_of_a_class_that_measured_nothing_are_not_looked_for_among_measurements(
    http: TestClient, db: Connection, job_id: int
) -> None:
    assert job_id
    agent = open_agent(http)
    lease = agent.lease().json()
    assert agent.report(lease, all_ok(lease)).is_success
    assert measurements_looked_up(db, DeviceClass.parse(agent.device_class)) > 0
    assert measurements_looked_up(db, DeviceClass.parse(STRANGE.format(1))) == 0
