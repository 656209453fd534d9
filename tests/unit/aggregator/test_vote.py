"""The vote of nnJIT section 5.3."""

from hypothesis import given
from hypothesis import strategies as st

from kernelzoo.domain.ballot import Ballot
from services.aggregator.vote import standings
from tests.ballots import ballot

BALLOTS = st.lists(
    st.permutations("abcdefg").map(lambda order: ballot("someone", *order[:5])), max_size=8
).map(tuple)


def test_ranks_weigh_five_to_one() -> None:
    counted = standings((ballot("x", "a", "b", "c", "d", "e"), ballot("y", "b", "a")))
    assert [(s.candidate_id, s.weight, s.ballots) for s in counted] == [
        ("a", 9, 2), ("b", 9, 2), ("c", 3, 1), ("d", 2, 1), ("e", 1, 1),
    ]  # fmt: skip


def test_equal_weights_are_ordered_by_time() -> None:
    counted = standings((ballot("x", "slow", time=0.9), ballot("y", "fast", time=0.8)))
    assert [s.candidate_id for s in counted] == ["fast", "slow"]


@given(ballots=BALLOTS)
def test_every_point_is_counted_and_order_of_arrival_does_not_matter(
    ballots: tuple[Ballot, ...],
) -> None:
    counted = standings(ballots)
    assert sum(s.weight for s in counted) == 15 * len(ballots)
    assert counted == standings(ballots[::-1])
