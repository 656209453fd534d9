"""Ballots of whole tokens decide alone once a quorum has cast them, and attackers gain nothing."""

from dataclasses import replace

import pytest

from kernelzoo.domain.ballot import CastBallot
from kernelzoo.domain.trust import ALL_DEFENCES
from kernelzoo.domain.zoo import EntryState
from services.aggregator.electorate import credible, electorate
from services.aggregator.publishing import Publish, Rule, decide
from tests.ballots import ballot, cast

QUORUM = 5


def voters(count: int, *ranking: str, in_tokens: bool = False) -> tuple[CastBallot, ...]:
    of = "tokens" if in_tokens else "kernels"
    filed = (ballot(f"{of} {n}", *ranking, time=0.8, step=0.1) for n in range(count))
    return cast(*(replace(each, in_tokens=in_tokens) for each in filed))


def test_all_ballots_count_alike_until_a_quorum_has_timed_whole_tokens() -> None:
    every = (*voters(9, "alone"), *voters(4, "whole", in_tokens=True))
    found = electorate(every, quorum=QUORUM, malicious_share=0)
    assert (found.ballots, found.in_tokens) == (every, False)


def test_what_wins_in_whole_tokens_is_served_though_another_is_faster_alone() -> None:
    rule = Rule(quorum=QUORUM, malicious_share=0)
    alone = voters(9, "alone", "whole", "default")
    whole = voters(5, "whole", "alone", "default", in_tokens=True)
    before, after = (
        decide(each, None, default_id="default", rule=rule) for each in (alone, (*alone, *whole))
    )
    assert isinstance(before, Publish)
    assert isinstance(after, Publish)
    assert (before.candidate_id, before.reason) == ("alone", "")
    assert (after.candidate_id, after.state) == ("whole", EntryState.CONFIRMED)
    assert after.reason == "decided by whole tokens"
    assert after.evidence.ballots == QUORUM


def test_attackers_who_say_that_they_timed_whole_tokens_are_not_alone() -> None:
    every = (*voters(20, "good"), *voters(5, "poison", in_tokens=True))
    assert electorate(every, quorum=QUORUM, malicious_share=0.2).ballots == every


def test_half_of_the_voters_in_whole_tokens_are_held_to_twice_the_share_of_attackers() -> None:
    every = (*voters(10, "alone"), *voters(10, "whole", in_tokens=True))
    found = electorate(every, quorum=QUORUM, malicious_share=0.2)
    assert {each.ballot.in_tokens for each in found.ballots} == {True}
    assert found.malicious_share == pytest.approx(0.4)


def test_a_ballot_of_whole_tokens_that_contradicts_its_measurements_says_what_was_measured() -> (
    None
):
    (lie,) = voters(1, "slow", in_tokens=True)
    measured = cast(lie.ballot, network="net", measured={"slow": 2.0})
    (held,) = credible(measured, ALL_DEFENCES)
    assert (held.ballot.lines[0].relative_time, held.ballot.in_tokens) == (2.0, True)
