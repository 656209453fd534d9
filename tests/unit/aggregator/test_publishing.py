"""The rule by which the zoo follows the vote: slowly, and never for nothing."""

from dataclasses import replace

import pytest

from kernelzoo.domain.ballot import Ballot, BallotLine, CastBallot
from kernelzoo.domain.trust import ALL_DEFENCES, Defence
from kernelzoo.domain.zoo import EntryState
from services.aggregator.publishing import Champion, Keep, NextEntry, Nothing, Publish, Rule, decide
from tests.ballots import ballot, cast

FIVE = tuple(ballot(str(n), "fast", "default", time=0.8, step=0.2) for n in range(5))


def after(
    ballots: tuple[Ballot, ...], live: Champion | None = None, **measured: float
) -> NextEntry:
    rule = Rule(quorum=5, malicious_share=0.2)
    return decide(cast(*ballots, measured=measured), live, default_id="default", rule=rule)


def live(candidate_id: str, state: EntryState = EntryState.CONFIRMED) -> Champion:
    return Champion(candidate_id=candidate_id, state=state)


def published(decision: NextEntry) -> tuple[str, EntryState]:
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


def test_one_preference_of_ones_own_agents_is_not_enough_but_most_of_a_quorum_is() -> None:
    """Agents that share a space have each measured kernels that no other has, some by chance beside
    a reference that was disturbed."""
    lucky = ballot("0", "lucky", "fast", "default", time=0.4, step=0.4)
    rule = Rule(quorum=5, malicious_share=0)
    for agreeing, served in ((2, "default"), (3, "fast")):
        others = tuple(ballot(str(n), "slow", time=1.5) for n in range(agreeing, 5))
        found = decide(
            cast(lucky, *FIVE[1:agreeing], *others), None, default_id="default", rule=rule
        )
        assert published(found) == (served, EntryState.CONFIRMED)


@pytest.mark.parametrize(("malicious_share", "served"), [(0.0, "fast"), (0.2, "slow")])
def test_ones_own_agents_need_not_have_measured_the_champion_to_prefer_another(
    malicious_share: float, served: str
) -> None:
    """They share a space, so that few have measured both; strangers could make a time up."""
    before = tuple(ballot(str(n), "slow", time=0.9) for n in range(5))
    now = tuple(ballot(str(n), "fast", time=0.7) for n in range(5, 12))
    ballots, rule = cast(*before, *now), Rule(quorum=5, malicious_share=malicious_share)
    found = decide(ballots, live("slow"), default_id="default", rule=rule)
    assert (found.candidate_id if isinstance(found, Publish) else "slow") == served


def test_preferences_in_a_circle_come_to_rest_on_the_same_ballots() -> None:
    circle = (("a", "b", "c"), ("b", "c", "a"), ("c", "a", "b"))
    ballots = cast(*(ballot(str(n), *order, time=0.5, step=0.1) for n, order in enumerate(circle)))
    champion = None
    for _ in range(3):
        found = decide(
            ballots, champion, default_id="default", rule=Rule(quorum=3, malicious_share=0)
        )
        if isinstance(found, Keep):
            return
        champion = live(*published(found))
    raise AssertionError("it went round")


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


def test_attackers_who_lead_the_vote_do_not_take_the_place_of_a_champion() -> None:
    """Honest devices spread their first ranks over equals, so a fifth of the ballots can lead."""
    honest = tuple(
        ballot(str(n), f"equal{n % 4}", f"equal{(n + 1) % 4}", "good", time=0.79, step=0.005)
        for n in range(16)
    )
    attackers = tuple(ballot(f"attacker{n}", "poison", time=0.4) for n in range(4))
    assert isinstance(after((*honest, *attackers), live("good")), Keep)


def test_a_faster_kernel_is_promoted_although_attackers_vote_for_another() -> None:
    honest = tuple(ballot(str(n), "fast", "default", time=0.8, step=0.2) for n in range(16))
    attackers = tuple(ballot(f"attacker{n}", "poison", time=0.4) for n in range(4))
    assert published(after((*honest, *attackers))) == ("fast", EntryState.CONFIRMED)


def test_with_a_quorum_but_no_proof_the_default_is_confirmed() -> None:
    split = (*FIVE[:3], *(ballot(f"other{n}", "default", "fast") for n in range(2)))
    assert published(after(split)) == ("default", EntryState.CONFIRMED)


def test_a_champion_within_the_fastest_of_many_equals_is_not_lost_to_the_default() -> None:
    names = [f"equal{n}" for n in range(20)]
    ballots = tuple(ballot(str(n), *names[n : n + 5], time=0.8) for n in range(16))
    assert after(ballots, live("champion"), champion=0.805) == Nothing()


def test_one_of_many_equals_takes_over_although_few_ballots_name_it() -> None:
    names = [f"equal{n}" for n in range(20)]
    ballots = tuple(ballot(str(n), *names[n : n + 5], time=0.8) for n in range(16))
    chosen, state = published(after(ballots, live("champion"), champion=0.9))
    assert chosen in names
    assert state is EntryState.CONFIRMED


def test_a_champion_that_no_ballot_names_any_more_gives_way() -> None:
    assert published(after(FIVE, live("forgotten"))) == ("fast", EntryState.CONFIRMED)


def test_a_champion_that_turns_out_to_be_slow_gives_way_to_the_default() -> None:
    ballots = tuple(ballot(str(n), "slow", "default", time=1.05) for n in range(5))
    assert published(after(ballots, live("slow"))) == ("default", EntryState.CONFIRMED)


MINIMUM = Rule(quorum=5, malicious_share=0.2, minimum=10)


def strangers(*ballots: Ballot, first: int = 0) -> tuple[CastBallot, ...]:
    """Each from a network of its own."""
    return tuple(
        each
        for number, one in enumerate(ballots, first)
        for each in cast(one, network=f"network {number}")
    )


def poisoned(voters: int) -> tuple[CastBallot, ...]:
    ballots = (ballot(f"attacker{n}", "poison", time=0.5) for n in range(voters))
    return strangers(*ballots)


def decided(ballots: tuple[CastBallot, ...], champion: Champion | None = None) -> NextEntry:
    return decide(ballots, champion, default_id="default", rule=MINIMUM)


def test_few_networks_confirm_nothing_in_a_class_that_they_alone_have_visited() -> None:
    assert published(decided(poisoned(9))) == ("poison", EntryState.PROVISIONAL)
    assert published(decided(poisoned(10))) == ("poison", EntryState.CONFIRMED)
    defended = replace(MINIMUM, defences=ALL_DEFENCES - {Defence.MINIMUM})
    found = decide(poisoned(5), None, default_id="default", rule=defended)
    assert published(found) == ("poison", EntryState.CONFIRMED), "what the defence is for"


def test_identities_of_few_networks_are_few_networks() -> None:
    crowded = tuple(
        replace(each, network=f"network {number % 6}") for number, each in enumerate(poisoned(12))
    )
    assert published(decided(crowded)) == ("poison", EntryState.PROVISIONAL)


def test_few_networks_confirm_what_another_class_found() -> None:
    found = decide(
        poisoned(5),
        None,
        default_id="default",
        rule=MINIMUM,
        elsewhere=frozenset({"poison"}),
    )
    assert published(found) == ("poison", EntryState.CONFIRMED)


@pytest.mark.parametrize(("told", "state"), [("poison", "confirmed"), ("default", "provisional")])
def test_few_networks_confirm_what_the_operators_agents_prefer_too(told: str, state: str) -> None:
    found = 0.5 if told == "poison" else 1.5
    own = cast(ballot("own", told), network="", measured={"poison": found, "default": 1.0})
    assert published(decided((*poisoned(8), *own))) == ("poison", EntryState(state))


@pytest.mark.parametrize("before", list(EntryState)[:2])
def test_what_three_networks_said_first_gives_way_at_once_to_ten_honest_ones(
    before: EntryState,
) -> None:
    """Confirmed was what an earlier rule let three networks confirm."""
    honest = strangers(
        *(ballot(f"honest{n}", "fast", "other", time=0.8, step=0.1) for n in range(10)), first=10
    )
    told = (BallotLine(candidate_id="poison", relative_time=1.5),)
    seen = tuple(replace(each, measured=told) for each in honest)
    found = decided((*poisoned(3), *seen), live("poison", before))
    assert published(found) == ("fast", EntryState.CONFIRMED)


def test_a_confirmed_entry_is_not_replaced_by_few_networks() -> None:
    assert decided(poisoned(6), live("good")) == Nothing()


@pytest.mark.parametrize(("malicious_share", "ballots"), [(0.0, 5), (0.2, 1)])
def test_ones_own_agents_may_share_a_network(malicious_share: float, ballots: int) -> None:
    """Devices of one household, where the operator says that nobody lies."""
    home = tuple(replace(each, network="home") for each in cast(*FIVE))
    found = decide(
        home, None, default_id="default", rule=Rule(quorum=1, malicious_share=malicious_share)
    )
    assert isinstance(found, Publish)
    assert found.evidence.ballots == ballots
