"""The vote of nnJIT section 5.3 and the rule by which the zoo follows it."""

from hypothesis import given
from hypothesis import strategies as st

from kernelzoo.domain.ballot import Ballot, BallotLine
from kernelzoo.domain.zoo import EntryState
from services.aggregator.publishing import Champion, Keep, Nothing, Publish, decide
from services.aggregator.vote import standings


def ballot(identity: str, *ranking: str, time: float = 1.0) -> Ballot:
    return Ballot(
        identity=identity,
        lines=tuple(BallotLine(candidate_id=name, relative_time=time) for name in ranking),
    )


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


def test_without_ballots_nothing_happens() -> None:
    assert decide((), None, quorum=1) == Nothing()


def test_the_first_ballot_publishes_provisionally_and_the_quorum_confirms() -> None:
    ballots = tuple(ballot(str(n), "a", "b") for n in range(5))
    first = decide(ballots[:1], None, quorum=5)
    assert isinstance(first, Publish)
    assert (first.candidate_id, first.state) == ("a", EntryState.PROVISIONAL)
    live = Champion(candidate_id="a", state=EntryState.PROVISIONAL)
    assert isinstance(decide(ballots[:4], live, quorum=5), Keep)
    last = decide(ballots, live, quorum=5)
    assert isinstance(last, Publish)
    assert (last.candidate_id, last.state) == ("a", EntryState.CONFIRMED)
    assert (last.evidence.weight, last.evidence.total_weight, last.evidence.ballots) == (25, 45, 5)


def test_a_new_winner_replaces_the_champion() -> None:
    ballots = (ballot("x", "b", "a"), ballot("y", "b", "a"), ballot("z", "a", "b"))
    decision = decide(ballots, Champion(candidate_id="a", state=EntryState.CONFIRMED), quorum=3)
    assert isinstance(decision, Publish)
    assert decision.candidate_id == "b"
