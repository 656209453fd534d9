"""A version came for a reason, told by what was kept with it and the one before it."""

import pytest

from services.gateway.views import reason
from services.gateway.wire.console import Reason


@pytest.mark.parametrize(
    ("served", "served_before", "expected"),
    [
        (False, None, Reason.FIRST),
        (True, None, Reason.QUORUM),
        (False, False, Reason.LEAD),
        (True, False, Reason.QUORUM),
        (True, True, Reason.CHALLENGE),
        (False, True, Reason.LEAD),
    ],
)
def test_a_version_came_for_a_reason(
    served: bool, served_before: bool | None, expected: Reason
) -> None:
    assert reason("", served=served, served_before=served_before) is expected


def test_what_no_vote_alone_decided_is_said_in_words() -> None:
    kept = "version 3 is denied: run"
    assert reason(kept, served=True, served_before=True) is Reason.DECIDED
