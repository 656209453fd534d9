"""Only so much may be told of a class of devices."""

import pytest

from services.gateway.views import is_shown


@pytest.mark.parametrize(
    ("identities", "strangers", "expected"),
    [(1, 0, True), (1, 1, False), (4, 1, False), (5, 1, True), (5, 5, True)],
)
def test_strangers_are_told_of_only_in_a_crowd(
    identities: int, strangers: int, *, expected: bool
) -> None:
    assert is_shown(identities=identities, strangers=strangers, quorum=5) is expected
