"""The test that a challenger must pass: its error rates, computed and not simulated."""

from collections import defaultdict

import pytest

from kernelzoo.domain.ballot import Ballot
from services.aggregator.challenge import (
    ERROR,
    MISTAKES,
    Challenge,
    Preferences,
    passes,
    preferences,
)
from tests.ballots import ballot, cast

QUORUM = 5


def passing(share: float, malicious_share: float, voters: int) -> float:
    """Probability that a challenger which each voter prefers with probability `share` has passed
    by the time of `voters` ballots, where the question is asked after each."""
    waiting = {0: 1.0}
    passed = 0.0
    for count in range(1, voters + 1):
        grown: dict[int, float] = defaultdict(float)
        for votes, probability in waiting.items():
            grown[votes + 1] += probability * share
            grown[votes] += probability * (1 - share)
        waiting = dict(grown)
        for votes in tuple(waiting) if count >= QUORUM else ():
            if passes(Preferences(challenger=votes, champion=count - votes), malicious_share):
                passed += waiting.pop(votes)
    return passed


@pytest.mark.parametrize("malicious_share", [0.05, 0.1, 0.2, 0.3, 0.4, 0.45])
def test_a_slower_challenger_passes_in_one_of_two_hundred_at_most(malicious_share: float) -> None:
    assert (
        passing(malicious_share + (1 - malicious_share) * MISTAKES, malicious_share, voters=300)
        <= ERROR
    )


@pytest.mark.parametrize(
    ("malicious_share", "voters"), [(0.05, 10), (0.1, 10), (0.2, 25), (0.3, 50)]
)
def test_a_faster_challenger_passes_soon_although_the_attackers_oppose_it(
    malicious_share: float, voters: int
) -> None:
    assert passing((1 - malicious_share) * (1 - MISTAKES), malicious_share, voters) > 0.9


def test_plain_majority_falls_to_the_same_attackers() -> None:
    """A test that is off shows what it is for: a fifth of attackers and a close race promote what
    is slower."""
    assert passing(0.24, malicious_share=0, voters=50) > 0.1


def test_five_who_agree_are_enough_against_a_fifth_of_attackers() -> None:
    assert passes(Preferences(challenger=5, champion=0), malicious_share=0.2)
    assert not passes(Preferences(challenger=4, champion=0), malicious_share=0.2)
    assert not passes(Preferences(challenger=4, champion=1), malicious_share=0.2)


def counted(*ballots: Ballot, challenger: str, champion: str, **measured: float) -> tuple[int, int]:
    challenge = Challenge(challenger_id=challenger, champion_id=champion, default_id="default")
    voters = [each.relative_times for each in cast(*ballots, measured=measured)]
    found = preferences(voters, challenge)
    return found.challenger, found.champion


def test_a_preference_needs_the_margin() -> None:
    clear = ballot("x", "new", "old", time=0.8, step=0.1)
    near = ballot("y", "new", "old", time=0.8, step=0.005)
    assert counted(clear, near, challenger="new", champion="old") == (1, 1)


def test_what_was_measured_counts_although_the_ballot_does_not_name_it() -> None:
    named = ballot("x", "new", time=0.8)
    assert counted(named, challenger="new", champion="old", old=1.0) == (1, 0)
    assert counted(named, challenger="old", champion="new", old=1.0) == (0, 1)


def test_who_measured_one_of_the_two_has_no_preference() -> None:
    assert counted(ballot("x", "new"), challenger="new", champion="old") == (0, 0)


def test_the_default_is_compared_by_its_time_of_one() -> None:
    slow, fast = ballot("x", "old", time=1.1), ballot("y", "old", time=0.9)
    assert counted(slow, fast, challenger="default", champion="old") == (1, 1)
    assert counted(slow, fast, challenger="old", champion="default") == (1, 1)
