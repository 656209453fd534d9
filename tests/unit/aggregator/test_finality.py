"""Measurements may contradict what is served, among one's own agents."""

import pytest

from kernelzoo.domain.ballot import CastBallot
from kernelzoo.domain.zoo import EntryState, Evidence
from services.aggregator.publishing import Champion, Keep, Publish, Rule, decide
from services.aggregator.vote import contenders, median_times
from tests.ballots import ballot, cast

OWN = Rule(quorum=5, malicious_share=0)
SERVED = Champion(candidate_id="served", state=EntryState.CONFIRMED)


def found(
    ballots: tuple[CastBallot, ...], reported: dict[str, int], rule: Rule = OWN
) -> tuple[str, Evidence]:
    """Returns what is served after these ballots, where `served` was before."""
    decision = decide(ballots, SERVED, default_id="default", rule=rule, reported=reported)
    assert isinstance(decision, Keep | Publish)
    chosen = decision.candidate_id if isinstance(decision, Publish) else "served"
    return chosen, decision.evidence


def test_the_median_of_the_default_is_one_whatever_its_ballots_say() -> None:
    assert median_times([{"a": 0.5, "default": 0.9}, {"a": 0.7}], "default") == {
        "a": 0.6,
        "default": 1.0,
    }


@pytest.mark.parametrize(
    ("time", "reported", "contends"),
    [(0.78, 1, True), (0.78, 4, True), (0.78, 5, False), (0.795, 1, False), (0.9, 1, False)],
)
def test_what_is_faster_than_the_noise_contends_until_a_quorum_has_reported_it(
    time: float, reported: int, contends: bool
) -> None:
    times = {"served": 0.8, "other": time, "default": 1.0}
    assert contenders(times, "served", {"other": reported}, 5) == (("other",) if contends else ())


def test_the_two_fastest_contend_first() -> None:
    times = {"served": 0.8, "a": 0.7, "b": 0.5, "c": 0.6}
    assert contenders(times, "served", {}, 5) == ("b", "c")


def shared() -> tuple[CastBallot, ...]:
    """Five agents that share a space left this: of the fastest each has measured its own, so that
    none has most of a quorum; all have measured what is served, which has 1 of 75 votes.
    """
    fast = [[f"fast{n}{place}" for place in range(4)] for n in range(5)]
    named = [ballot(str(n), *fast[n], f"fifth{n}", time=0.75, step=0.01) for n in range(4)]
    last = ballot("4", *fast[4], "served", time=0.75, step=0.013)
    return cast(*named, last, measured={"served": 0.802})


def test_what_is_served_with_one_of_75_votes_is_not_final_while_faster_ones_have_one_voter() -> (
    None
):
    one_each = {f"fast{n}{place}": 1 for n in range(5) for place in range(4)}
    chosen, evidence = found(shared(), {**one_each, "served": 5})
    assert (chosen, evidence.weight, evidence.total_weight) == ("served", 1, 75)
    assert evidence.contenders == ("fast00", "fast10")
    assert not evidence.final


def test_a_contender_that_the_others_measured_too_is_served_and_the_vote_is_final() -> None:
    after = cast(
        *(ballot(str(n), "fast00", f"own{n}", "served", time=0.75, step=0.025) for n in range(5))
    )
    chosen, evidence = found(after, {"fast00": 5, "served": 5, **{f"own{n}": 5 for n in range(5)}})
    assert (chosen, evidence.contenders, evidence.final) == ("fast00", (), True)


def test_a_vote_is_not_final_before_all_that_the_class_can_run_is_measured() -> None:
    agreed = cast(*(ballot(str(n), "served", "slow", time=0.7, step=0.1) for n in range(5)))
    assert not found(agreed, {"served": 5, "slow": 5, "other": 0})[1].final
    assert found(agreed, {"served": 5, "slow": 5, "other": 1})[1].final


def test_among_strangers_nothing_contends_and_two_are_to_measure_each() -> None:
    """They measure the leaders by themselves; who contends could be made up."""
    chosen, evidence = found(
        shared(), {"served": 5, "fast00": 1}, Rule(quorum=5, malicious_share=0.2)
    )
    assert (chosen, evidence.contenders, evidence.final) == ("served", (), False)


def test_a_champion_that_no_agent_names_any_more_is_not_kept_by_one_lucky_measurement() -> None:
    """It was measured once beside a disturbed reference; the agent's last rounds knew better, and
    its ballot names five others."""
    others = ballot("0", "a", "b", "c", "d", "e", time=0.7, step=0.001)
    chosen, evidence = found(
        cast(others, measured={"served": 0.3}), {}, Rule(quorum=1, malicious_share=0)
    )
    assert (chosen, evidence.relative_time) == ("a", 0.7)


def test_an_agents_last_rounds_are_believed_against_its_first_measurement() -> None:
    """Among strangers what differs so much is read as it was measured."""
    careful = cast(ballot("0", "served", "fast", time=0.9, step=-0.2), measured={"served": 0.5})
    assert found(careful, {}, Rule(quorum=1, malicious_share=0))[0] == "fast"
