"""Why a version came, told by it and the one before it."""

import pytest

from kernelzoo.domain.zoo import EntryState
from services.gateway.history import Reason, Standing, reason

QUORUM = 5


def version(state: EntryState, ballots: int) -> Standing:
    return Standing(state=state, ballots=ballots)


LONE = version(EntryState.PROVISIONAL, 1)
CONFIRMED = version(EntryState.CONFIRMED, 5)
WAS_CONFIRMED = version(EntryState.RETIRED, 7)
WAS_PROVISIONAL = version(EntryState.RETIRED, 4)


@pytest.mark.parametrize(
    ("of", "before", "expected"),
    [
        (LONE, None, Reason.FIRST),
        (CONFIRMED, None, Reason.QUORUM),
        (LONE, WAS_PROVISIONAL, Reason.LEAD),
        (WAS_PROVISIONAL, WAS_PROVISIONAL, Reason.LEAD),
        (CONFIRMED, WAS_PROVISIONAL, Reason.QUORUM),
        (CONFIRMED, WAS_CONFIRMED, Reason.CHALLENGE),
        (WAS_CONFIRMED, WAS_CONFIRMED, Reason.CHALLENGE),
    ],
)
def test_a_version_came_for_a_reason(
    of: Standing, before: Standing | None, expected: Reason
) -> None:
    assert reason(of, before, quorum=QUORUM) is expected


def test_the_state_of_a_live_entry_counts_more_than_its_ballots() -> None:
    lowered = version(EntryState.PROVISIONAL, 3)
    assert reason(lowered, WAS_PROVISIONAL, quorum=2) is Reason.LEAD
