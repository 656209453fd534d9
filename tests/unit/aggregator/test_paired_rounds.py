"""Rounds in which agents timed their best in turn decide what is served."""

from dataclasses import replace

import pytest

from kernelzoo.domain.ballot import CastBallot
from kernelzoo.domain.zoo import EntryState
from services.aggregator.publishing import Champion, Keep, Publish, Rule, decide
from tests.ballots import ballot, cast

OWN = Rule(quorum=5, malicious_share=0)
STRANGERS = replace(OWN, malicious_share=0.2)


def in_turn(
    *times: dict[str, float], first: dict[str, float] | None = None, network: str | None = ""
) -> tuple[CastBallot, ...]:
    """One voter for each of `times`, all of whom measured `first` before."""
    named = tuple(
        ballot(str(number), *sorted(own, key=own.__getitem__)) for number, own in enumerate(times)
    )
    filed = tuple(
        replace(
            each,
            paired=True,
            lines=tuple(replace(line, relative_time=own[line.candidate_id]) for line in each.lines),
        )
        for each, own in zip(named, times, strict=True)
    )
    return cast(*filed, network=network, measured=first or {})


def served(
    ballots: tuple[CastBallot, ...], live: str | None = None, rule: Rule = OWN
) -> tuple[str, Publish | Keep]:
    champion = Champion(candidate_id=live, state=EntryState.CONFIRMED) if live else None
    found = decide(ballots, champion, default_id="default", rule=rule)
    assert isinstance(found, Publish | Keep)
    return found.candidate_id if isinstance(found, Publish) else live or "default", found


def test_first_measurements_say_nothing_against_most_of_a_quorum_that_took_turns() -> None:
    """All five once measured `lucky` beside a reference that was disturbed; three compared it."""
    three = [{"good": 0.8, "lucky": 1.04}] * 3
    two = [{"good": 0.8}] * 2
    chosen, found = served(in_turn(*three, *two, first={"lucky": 0.7}), "lucky")
    assert chosen == "good"
    assert (found.evidence.rank, found.evidence.spread) == (1, 0.0)


def test_one_who_took_turns_does_not_overrule_what_the_others_measured_first() -> None:
    chosen, _ = served(
        in_turn({"fast": 0.7, "other": 0.9}, *([{"other": 0.9}] * 4), first={"fast": 0.7})
    )
    assert chosen == "fast"


@pytest.mark.parametrize("live", [None, "near"])
def test_the_default_is_served_where_the_best_is_within_the_noise_of_it(live: str | None) -> None:
    near = [{"near": time, "nearer": time} for time in (0.985, 0.993, 0.995, 0.996, 1.002)]
    assert served(in_turn(*near), live)[0] == "default"


def test_a_champion_that_is_slower_than_the_default_in_turn_gives_way_to_it() -> None:
    slow = [{"slow": time} for time in (1.02, 1.03, 1.034, 1.04, 0.98)]
    assert served(in_turn(*slow), "slow")[0] == "default"


def test_what_a_quorum_finds_faster_by_the_median_is_served_though_preferences_are_split() -> None:
    """Two prefer it by the margin and three by less: it is ahead all the same."""
    split = [
        {"best": best, "champion": champion}
        for best, champion in (
            (0.80, 0.83),
            (0.81, 0.83),
            (0.815, 0.82),
            (0.816, 0.822),
            (0.817, 0.823),
        )
    ]
    assert served(in_turn(*split), "champion")[0] == "best"


def test_what_follows_the_winner_by_the_same_ballots_is_served_at_once() -> None:
    """Most prefer the third to the second, and too few to the first, which the second replaces."""
    voters = [
        {"first": 0.9, "second": 0.95, "third": 0.78},
        {"first": 0.9, "second": 0.95, "third": 0.78},
        {"first": 0.7, "second": 0.75, "third": 0.72},
        {"first": 0.98, "second": 0.8},
        {"first": 0.98, "second": 0.8},
    ]
    assert served(in_turn(*voters), "first")[0] == "third"
    assert served(in_turn(*voters), "third")[0] == "third"


@pytest.mark.parametrize("live", [None, "noisy"])
def test_what_two_of_five_find_slower_than_the_default_is_not_served_instead(
    live: str | None,
) -> None:
    """Five browsers found so of a convolution on a busy machine; a referee found 1.02."""
    told = (1.063, 0.903, 0.861, 0.783, 1.037)
    assert served(in_turn(*({"noisy": time} for time in told)), live)[0] == "default"
    second = (0.976, 0.91, 0.898, 0.845)
    both = [{"noisy": noisy, "sure": sure} for noisy, sure in zip(told, second, strict=False)]
    assert served(in_turn(*both, {"noisy": told[4]}), live)[0] == "sure"


def test_one_of_five_that_finds_the_winner_slower_than_the_default_may_be_mistaken() -> None:
    assert served(in_turn(*({"fast": time} for time in (1.08, 0.9, 0.91, 0.9, 0.9))))[0] == "fast"


def test_near_equals_leave_the_champion_where_it_is() -> None:
    near = [{"other": 0.797, "champion": 0.8}] * 5
    assert served(in_turn(*near), "champion")[0] == "champion"


def test_rank_and_spread_say_where_what_is_served_stands() -> None:
    """The faster one is so by less than the noise."""
    voters = [{"faster": 0.797, "champion": time} for time in (0.79, 0.796, 0.8, 0.804, 0.82)]
    _, found = served(in_turn(*voters), "champion")
    assert found.evidence.rank == 2
    assert found.evidence.spread == pytest.approx(0.01)


def test_a_quorum_of_the_operators_agents_decides_alone_in_a_zoo_of_strangers() -> None:
    """Four of five prefer it, which strangers could have made up; others lie in numbers."""
    own = in_turn(*([{"best": 0.8, "lie": 1.2}] * 4), {"best": 1.0, "lie": 1.2})
    liars = in_turn(*([{"lie": 0.4}] * 20), network=None)
    assert served((*own, *liars), rule=STRANGERS)[0] == "best"
    assert served((*own[:4], *liars), rule=STRANGERS)[0] == "lie", "one less is not a quorum"


def test_among_strangers_a_kernel_that_beats_the_champion_must_beat_the_default_too() -> None:
    voters = in_turn(*([{"other": 0.995, "champion": 1.1}] * 9), network=None)
    assert served(voters, "champion", STRANGERS)[0] == "default"


def test_a_vote_of_strangers_is_not_final_while_most_find_another_faster() -> None:
    divided = [{"champion": 0.8, "other": time} for time in (*([0.7] * 6), *([0.81] * 4))]
    chosen, found = served(in_turn(*divided, network=None), "champion", STRANGERS)
    assert (chosen, found.evidence.final) == ("champion", False)
    agreed = [{"champion": 0.8, "other": 0.81}] * 10
    assert served(in_turn(*agreed, network=None), "champion", STRANGERS)[1].evidence.final
