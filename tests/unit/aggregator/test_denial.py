"""Few can take a kernel away from a class: error rates computed, not simulated."""

from math import comb

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.aggregator.denial import (
    DENIERS,
    MEASURERS,
    Denial,
    Voice,
    denial,
    inhabited,
    suspicious,
    without,
)
from tests.ballots import ballot, cast


def voices(failed: int, ran: int, *, first: str = "run") -> list[Voice]:
    stages = [first] * failed + [""] * ran
    return [Voice(network=str(place), stage=stage) for place, stage in enumerate(stages)]


def test_five_networks_that_agree_deny_a_kernel_nobody_ran() -> None:
    assert denial(voices(4, 0), malicious_share=0.2) is None
    assert denial(voices(5, 0), malicious_share=0.2) == Denial(
        stage="run", failed=5, ran=0, operated=False
    )


@pytest.mark.parametrize(("ran", "needed"), [(0, 5), (5, 10), (25, 33)])
def test_a_kernel_that_works_elsewhere_needs_more_failures(ran: int, needed: int) -> None:
    """5 who ran it are those who confirmed it."""
    assert denial(voices(needed - 1, ran), malicious_share=0.2) is None
    assert denial(voices(needed, ran), malicious_share=0.2) is not None


@given(
    st.lists(
        st.builds(
            Voice,
            network=st.sampled_from(["", *"abcdefghijklmnop"]),
            stage=st.sampled_from(["", "", "run", "compile"]),
        ),
        max_size=60,
    ),
    st.sampled_from([0.0, 0.2, 0.4]),
)
def test_whatever_is_denied_was_suspicious_by_who_failed_and_whom_it_never_failed(
    crowd: list[Voice], malicious_share: float
) -> None:
    failed = {voice.network for voice in crowd if voice.stage}
    ran = {voice.network for voice in crowd} - failed - {""}
    if denial(crowd, malicious_share) is not None:
        strangers = len(failed - {""})
        assert suspicious(strangers, len(ran), malicious_share, operated="" in failed)


def test_what_fails_for_a_few_of_many_is_no_suspect_and_nothing_but_counts_is_read_of_it() -> None:
    assert not suspicious(12, 40, 0.2, operated=False)
    assert suspicious(12, 40, 0.2, operated=True)
    assert suspicious(12, 4, 0.2, operated=False)


def test_one_network_has_one_voice() -> None:
    crowd = [Voice(network="one", stage="run")] * 50
    assert denial(crowd, malicious_share=0.2) is None


def test_one_of_the_operators_agents_is_enough_and_one_that_runs_it_decides() -> None:
    own = Voice(network="", stage="compare")
    assert denial([own], malicious_share=0.2) == Denial(
        stage="compare", failed=1, ran=0, operated=True
    )
    runs = Voice(network="", stage="")
    assert denial([runs, *voices(50, 0)], malicious_share=0.2) is None


def test_a_zoo_without_attackers_still_wants_three_networks() -> None:
    assert denial(voices(DENIERS - 1, 0), malicious_share=0) is None
    assert denial(voices(DENIERS, 0), malicious_share=0) is not None
    assert denial(voices(DENIERS, DENIERS), malicious_share=0) is None


def test_a_fifth_of_attackers_seldom_denies_a_kernel_that_works() -> None:
    """16 of 25 networks must fail before the kernel is denied."""
    deniers = next(n for n in range(26) if denial(voices(n, 25 - n), malicious_share=0.2))
    chance = sum(comb(25, n) * 0.24**n * 0.76 ** (25 - n) for n in range(deniers, 26))
    assert deniers == 16
    assert chance < 1e-4


def test_a_kernel_that_fails_on_its_class_is_denied_although_the_attackers_praise_it() -> None:
    assert denial(voices(20, 5), malicious_share=0.2) is not None


def test_a_class_is_known_by_three_networks_or_by_one_agent_of_the_operator() -> None:
    assert inhabited(MEASURERS, 0)
    assert inhabited(0, 1)
    assert not inhabited(MEASURERS - 1, 0)


def test_ballots_are_read_as_if_what_is_denied_had_never_run() -> None:
    both = cast(ballot("x", "bad", "good"), measured={"bad": 0.5, "good": 0.6})
    (read,) = without(both, frozenset({"bad"}))
    assert [line.candidate_id for line in read.ballot.lines] == ["good"]
    assert read.relative_times.keys() == {"good"}
    assert without(cast(ballot("y", "bad")), frozenset({"bad"})) == ()
