"""An identity is checked so often, and may be in quarantine."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelzoo.domain.trust import PROVEN, RELEASING, Record, recheck_probability


@pytest.mark.parametrize("valid_in_row", [0, 1, PROVEN - 1])
def test_who_is_not_proven_is_checked_in_every_lease(valid_in_row: int) -> None:
    assert recheck_probability(valid_in_row) == 1


def test_who_is_proven_is_checked_in_one_of_as_many_leases_as_were_valid() -> None:
    assert recheck_probability(PROVEN) == 0.1
    assert recheck_probability(100) == 0.01


@given(st.integers(min_value=0, max_value=10**6))
def test_more_valid_leases_never_mean_more_checks_and_never_none(valid_in_row: int) -> None:
    assert 0 < recheck_probability(valid_in_row + 1) <= recheck_probability(valid_in_row)


def test_a_quarantine_begins_with_a_failure_and_ends_with_valid_leases() -> None:
    assert not Record(valid_in_row=0, failed=False).quarantined
    assert Record(valid_in_row=0, failed=True).quarantined
    assert Record(valid_in_row=RELEASING - 1, failed=True).quarantined
    assert not Record(valid_in_row=RELEASING, failed=True).quarantined
