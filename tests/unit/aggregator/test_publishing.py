"""The rule by which the zoo follows the vote: slowly, and never for nothing."""

from kernelzoo.domain.ballot import Ballot
from kernelzoo.domain.zoo import EntryState
from services.aggregator.publishing import Champion, Decision, Keep, Nothing, Publish, decide
from tests.ballots import ballot

FIVE = tuple(ballot(str(n), "fast", "default", time=0.8, step=0.2) for n in range(5))


def after(ballots: tuple[Ballot, ...], live: Champion | None = None, quorum: int = 5) -> Decision:
    return decide(ballots, live, default_id="default", quorum=quorum)


def live(candidate_id: str, state: EntryState = EntryState.CONFIRMED) -> Champion:
    return Champion(candidate_id=candidate_id, state=state)


def published(decision: Decision) -> tuple[str, EntryState]:
    assert isinstance(decision, Publish)
    return decision.candidate_id, decision.state


def test_without_ballots_nothing_happens() -> None:
    assert after(()) == Nothing()


def test_the_first_ballot_publishes_provisionally_and_the_quorum_confirms() -> None:
    assert published(after(FIVE[:1])) == ("fast", EntryState.PROVISIONAL)
    provisional = live("fast", EntryState.PROVISIONAL)
    assert isinstance(after(FIVE[:4], provisional), Keep)
    last = after(FIVE, provisional)
    assert published(last) == ("fast", EntryState.CONFIRMED)
    assert isinstance(last, Publish)
    assert (last.evidence.weight, last.evidence.total_weight, last.evidence.ballots) == (25, 45, 5)
    assert last.evidence.relative_time == 0.8


def test_a_winner_within_the_noise_of_the_default_does_not_replace_it() -> None:
    ballots = tuple(ballot(str(n), "lucky", "default", time=0.995) for n in range(5))
    decision = after(ballots)
    assert published(decision) == ("default", EntryState.CONFIRMED)
    assert isinstance(decision, Publish)
    assert decision.evidence.relative_time == 1.0


def test_a_winner_slower_than_the_default_is_never_served() -> None:
    ballots = tuple(ballot(str(n), "slow", time=1.1) for n in range(5))
    assert published(after(ballots)) == ("default", EntryState.CONFIRMED)


def test_the_champion_stays_until_a_challenger_beats_it_by_the_margin() -> None:
    near = tuple(ballot(str(n), "other", "fast", time=0.798, step=0.002) for n in range(5))
    assert isinstance(after(near, live("fast")), Keep)
    clear = tuple(ballot(str(n), "other", "fast", time=0.7, step=0.1) for n in range(5))
    assert published(after(clear, live("fast"))) == ("other", EntryState.CONFIRMED)


def test_a_champion_that_no_ballot_names_any_more_gives_way() -> None:
    assert published(after(FIVE, live("forgotten"))) == ("fast", EntryState.CONFIRMED)


def test_a_champion_that_turns_out_to_be_slow_gives_way_to_the_default() -> None:
    ballots = tuple(ballot(str(n), "slow", "default", time=1.05) for n in range(5))
    assert published(after(ballots, live("slow"))) == ("default", EntryState.CONFIRMED)
