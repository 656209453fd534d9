"""A new major version of a browser is a new electorate, unless attackers invent it."""

from dataclasses import replace

import pytest

from kernelzoo.domain.ballot import CastBallot
from kernelzoo.domain.device import Engine
from kernelzoo.domain.zoo import EngineVotes, EntryState
from services.aggregator.electorate import electorate, engines
from services.aggregator.publishing import Champion, Publish, Rule, decide
from tests.ballots import ballot, cast

QUORUM = 5


def voters(
    count: int, version: str, *ranking: str, name: str = "Chromium", time: float = 0.8
) -> tuple[CastBallot, ...]:
    filed = (ballot(f"{name} {version} {n}", *ranking, time=time, step=0.2) for n in range(count))
    engine = Engine(name=name, version=version)
    return tuple(replace(each, engine=engine) for each in cast(*filed))


def majors(found: tuple[CastBallot, ...]) -> set[int]:
    return {each.engine.major for each in found}


def test_old_and_new_ballots_count_alike_until_a_quorum_has_voted_in_the_new_version() -> None:
    every = (*voters(5, "156.0.1", "a"), *voters(4, "157.0.1", "a"))
    found = electorate(every, quorum=QUORUM, malicious_share=0)
    assert (found.ballots, found.renewed) == (every, ())


def test_from_then_on_only_those_in_the_new_version_count() -> None:
    every = (*voters(5, "156.0.1", "a"), *voters(4, "157.0.1", "a"), *voters(1, "158", "a"))
    found = electorate(every, quorum=QUORUM, malicious_share=0)
    assert majors(found.ballots) == {157, 158}
    assert found.renewed == ("Chromium 157",)


def test_the_ballots_of_another_engine_stay() -> None:
    firefox = voters(3, "153.0", "a", name="Firefox")
    every = (*voters(5, "156", "a"), *firefox, *voters(5, "157", "a"))
    found = electorate(every, quorum=QUORUM, malicious_share=0)
    assert majors(found.ballots) == {153, 157}
    assert engines(found.ballots) == (
        EngineVotes(name="Chromium", major=157, ballots=5),
        EngineVotes(name="Firefox", major=153, ballots=3),
    )


def test_attackers_who_invent_a_version_are_not_alone_in_it() -> None:
    every = (*voters(20, "156", "good"), *voters(5, "999", "poison"))
    assert electorate(every, quorum=QUORUM, malicious_share=0.2).ballots == every


def test_a_version_of_half_the_voters_is_held_to_twice_the_share_of_attackers() -> None:
    every = (*voters(10, "156", "a"), *voters(10, "157", "a"))
    found = electorate(every, quorum=QUORUM, malicious_share=0.2)
    assert majors(found.ballots) == {157}
    assert found.malicious_share == pytest.approx(0.4)


def test_a_champion_that_a_new_version_made_slow_gives_way_and_the_entry_says_why() -> None:
    old = voters(5, "156", "champion", "default")
    new = voters(20, "157", "default", "champion", time=1.0)
    decision = decide(
        (*old, *new),
        Champion(candidate_id="champion", state=EntryState.CONFIRMED),
        default_id="default",
        rule=Rule(quorum=QUORUM, malicious_share=0.2),
    )
    assert isinstance(decision, Publish)
    assert (decision.candidate_id, decision.state) == ("default", EntryState.CONFIRMED)
    assert decision.reason == "measured again in Chromium 157"
    assert decision.evidence.ballots == 20


@pytest.mark.parametrize(
    ("version", "major"), [("156.0.7000.1", 156), ("26.1", 26), ("", 0), ("dev", 0)]
)
def test_the_major_version_is_the_first_number(version: str, major: int) -> None:
    assert Engine(name="Chromium", version=version).major == major
