"""Reports that cost whoever judges them more than they cost their author."""

import tracemalloc
from typing import Any

import pytest

from fixtures.rows import compile_row
from kernelzoo import jobs
from kernelzoo.domain.candidate import Candidate
from kernelzoo.domain.target import TargetKind
from kernelzoo.domain.workload import MAX_REDUCTION, Workload
from tests.database.conftest import Connection, open_space
from tests.database.strangers import Crowd, timed
from tests.reports import failure
from workers.aggregating import RETRIES, verify_lease, verify_leases
from workers.maintenance import stalled

LONGEST = Workload.parse(f"avg_pool2d:f32:b1h2052w2052c4kh2048kw{MAX_REDUCTION // 2048}stride1pad0")


def test_a_failure_on_the_longest_reduction_costs_the_verifier_nothing(
    come: Crowd, db: Connection
) -> None:
    """The attacker pays one registered workload, one identity and one report; the verifier paid
    936 MB and three seconds for each such report.
    """
    candidate = Candidate(
        workload=LONGEST, target=TargetKind.WASM, config=(), requires=("simd128",)
    )
    open_space(db, [candidate])
    compile_row(db, candidate)
    for network in (1, 2):
        agent = come(network)
        lease = agent.lease().json()
        assert agent.report(lease, [failure(candidate.candidate_id, "run")]).status_code == 202
        # Of the second alone: the first also imports what all reports need.
        tracemalloc.start()
        verify_lease(db, int(lease["lease"]))
        peak_bytes = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert db.execute("SELECT verdict FROM measurement").fetchall() == [("verified",)] * 2
    assert peak_bytes < 1 << 20


@pytest.mark.usefixtures("job_id")
def test_a_peak_of_zero_which_costs_one_field_of_a_session_is_judged_like_any(
    come: Crowd, db: Connection
) -> None:
    """401 sessions with a peak of 0 took half a worker and 20 GB of log a day: each report divided
    by zero every five seconds, for ever.
    """
    for network in range(4):
        agent = come(network, peak_gflops=0, probe=None)
        lease = agent.lease().json()
        report = [timed(lease, each["candidate"], 1000.0, network) for each in lease["candidates"]]
        assert agent.report(lease, report).status_code == 202
        verify_lease(db, int(lease["lease"]))
    verdicts = db.execute("SELECT DISTINCT verdict FROM measurement").fetchall()
    assert verdicts == [("verified",)]


def unjudgeable(come: Crowd, db: Connection) -> int:
    """A reported lease on which the judgement fails, as on an error of our own it would."""
    agent = come(1)
    lease = agent.lease(1).json()
    report = [timed(lease, each["candidate"], 1000.0, 1) for each in lease["candidates"]]
    assert agent.report(lease, report).status_code == 202
    db.execute("UPDATE measurement SET reference_ns = '{}'")
    return int(lease["lease"])


def requeue(db: Connection, after_s: float) -> tuple[jobs.Message, ...]:
    """The messages on leases that are sent again `after_s` seconds from now."""
    db.execute(
        "UPDATE measurement SET requeued_at = requeued_at - make_interval(secs => %s)", (after_s,)
    )
    return tuple(job for job in stalled(db, 5, 16) if job.name == "verify_leases")


@pytest.mark.usefixtures("job_id")
def test_a_report_that_cannot_be_judged_is_tried_ever_later_and_then_given_up_with_the_reason(
    come: Crowd, db: Connection
) -> None:
    poisoned = unjudgeable(come, db)
    with pytest.raises(ExceptionGroup, match="1 of 1 leases not judged"):
        list(verify_leases(db, [poisoned]))
    for retry, wait_s in enumerate((5, 20, 80), 1):
        assert requeue(db, wait_s - 1) == ()
        assert requeue(db, 2) == (jobs.verify_leases((poisoned,)),)
        if retry < RETRIES:
            with pytest.raises(ExceptionGroup):
                list(verify_leases(db, [poisoned]))
    assert list(verify_leases(db, [poisoned])) == []
    (found,) = db.execute("SELECT verdict, detail FROM measurement").fetchall()
    assert found[0] == "unjudged"
    assert found[1].startswith("judging this failed: ValueError: min()")
    assert requeue(db, 1e6) == ()


@pytest.mark.usefixtures("job_id")
def test_a_report_that_kills_its_worker_is_given_up_too(
    come: Crowd, db: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    poisoned = unjudgeable(come, db)

    def dies(*_: Any) -> tuple[jobs.Message, ...]:
        raise KeyboardInterrupt

    monkeypatch.setattr("workers.aggregating.verify_lease", dies)
    for _ in range(RETRIES):
        assert requeue(db, 1000) == (jobs.verify_leases((poisoned,)),)
        with pytest.raises(KeyboardInterrupt):
            list(verify_leases(db, [poisoned]))
    assert requeue(db, 1000) == (jobs.verify_leases((poisoned,)),)
    assert list(verify_leases(db, [poisoned])) == []
    (found,) = db.execute("SELECT verdict, detail FROM measurement").fetchall()
    assert found == ("unjudged", "every worker that tried to judge this died")


@pytest.mark.usefixtures("job_id")
def test_a_report_that_cannot_be_judged_holds_up_no_other_of_its_message(
    come: Crowd, db: Connection
) -> None:
    poisoned = unjudgeable(come, db)
    honest = come(2)
    lease = honest.lease(1).json()
    report = [timed(lease, each["candidate"], 1000.0, 2) for each in lease["candidates"]]
    assert honest.report(lease, report).status_code == 202
    with pytest.raises(ExceptionGroup):
        list(verify_leases(db, [poisoned, int(lease["lease"])]))
    rows = db.execute("SELECT verdict FROM measurement ORDER BY lease_id").fetchall()
    assert rows == [("pending",), ("verified",)]


@pytest.mark.usefixtures("job_id")
def test_no_verdict_waits_for_the_disk_before_the_next_is_given(
    come: Crowd, db: Connection, owner: Connection
) -> None:
    """Two hundred reports that came together waited as many times for it. A verdict that a crash
    loses is given again, as its measurement is pending then."""
    agent = come(1)
    lease = agent.lease().json()
    report = [timed(lease, each["candidate"], 1000.0, 1) for each in lease["candidates"]]
    assert agent.report(lease, report).status_code == 202
    owner.execute(
        """
        CREATE FUNCTION say_durability() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN RAISE NOTICE 'awaited: %', current_setting('synchronous_commit'); RETURN NULL; END
        $$;
        CREATE TRIGGER said AFTER UPDATE ON measurement
            FOR EACH STATEMENT EXECUTE FUNCTION say_durability()
        """
    )
    db.execute("SET synchronous_commit TO on")
    said: list[str | None] = []
    db.add_notice_handler(lambda notice: said.append(notice.message_primary))
    verify_lease(db, int(lease["lease"]))
    assert said == ["awaited: off"], "one statement for all that is judged"
    db.execute("UPDATE measurement SET retries = retries")
    assert said[1:] == ["awaited: on"], "what comes after waits as ever"
