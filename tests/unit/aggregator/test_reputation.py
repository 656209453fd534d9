"""A lease changes the record of its author."""

from hypothesis import given
from hypothesis import strategies as st

from kernelzoo.domain.measurement import Verdict
from kernelzoo.domain.trust import ALL_DEFENCES, RELEASING, Defence, Record
from services.aggregator.reputation import LeaseFinding, Settlement, settled

FINDINGS = st.lists(st.sampled_from(LeaseFinding), max_size=30)


def after(*findings: LeaseFinding, operated: bool = False) -> Settlement:
    settlement = Settlement(
        record=Record(valid_in_row=0, failed=False),
        verdict=Verdict.PENDING,
        withdraws=False,
        releases=False,
    )
    for finding in findings:
        settlement = settled(settlement.record, finding, ALL_DEFENCES, operated=operated)
    return settlement


def test_valid_leases_are_counted_and_one_failure_ends_the_count() -> None:
    assert after(LeaseFinding.VALID, LeaseFinding.VALID).record.valid_in_row == 2
    failed = after(LeaseFinding.VALID, LeaseFinding.VALID, LeaseFinding.FAILED)
    assert failed.record == Record(valid_in_row=0, failed=True)
    assert (failed.verdict, failed.withdraws) == (Verdict.QUARANTINED, True)


def test_an_impossible_time_ends_the_count_and_withdraws_nothing() -> None:
    failed = after(LeaseFinding.VALID, LeaseFinding.IMPOSSIBLE)
    assert failed.record == Record(valid_in_row=0, failed=True)
    assert (failed.verdict, failed.withdraws) == (Verdict.QUARANTINED, False)


def test_a_lease_answered_in_part_proves_nothing_and_costs_nothing() -> None:
    assert after(LeaseFinding.VALID, LeaseFinding.OPEN).record.valid_in_row == 1
    assert after(LeaseFinding.OPEN).verdict is Verdict.VERIFIED
    assert after(LeaseFinding.FAILED, LeaseFinding.OPEN).verdict is Verdict.QUARANTINED


def test_the_way_back_is_a_few_valid_leases_which_then_count() -> None:
    on_the_way = [LeaseFinding.FAILED] + [LeaseFinding.VALID] * (RELEASING - 1)
    assert after(*on_the_way).verdict is Verdict.QUARANTINED
    back = after(*on_the_way, LeaseFinding.VALID)
    assert (back.verdict, back.releases) == (Verdict.VERIFIED, True)
    assert not after(*on_the_way, LeaseFinding.VALID, LeaseFinding.VALID).releases


def test_the_operators_devices_are_never_quarantined() -> None:
    failed = after(LeaseFinding.FAILED, operated=True)
    assert (failed.verdict, failed.withdraws) == (Verdict.VERIFIED, False)


def test_without_quarantine_the_failed_lease_alone_is_left_out() -> None:
    defences = ALL_DEFENCES - {Defence.QUARANTINE}
    fresh = Record(valid_in_row=4, failed=False)
    failed = settled(fresh, LeaseFinding.FAILED, defences, operated=False)
    assert (failed.verdict, failed.withdraws) == (Verdict.QUARANTINED, False)
    next_one = settled(failed.record, LeaseFinding.OPEN, defences, operated=False)
    assert next_one.verdict is Verdict.VERIFIED


@given(FINDINGS)
def test_what_counts_is_never_of_an_identity_in_quarantine(findings: list[LeaseFinding]) -> None:
    settlement = after(*findings)
    if settlement.verdict is Verdict.VERIFIED:
        assert not settlement.record.quarantined
    assert not (settlement.withdraws and settlement.releases)
