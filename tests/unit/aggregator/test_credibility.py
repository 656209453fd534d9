"""Some ballots count, and are taken to say something."""

from dataclasses import replace

from kernelzoo.domain.trust import ALL_DEFENCES, Defence
from services.aggregator.electorate import credible
from tests.ballots import ballot, cast


def test_a_ballot_of_a_stranger_counts_after_one_whole_valid_lease() -> None:
    (new,) = cast(ballot("new", "a"), network="home")
    waiting = replace(new, valid_in_row=0)
    assert credible((waiting,), ALL_DEFENCES) == ()
    assert credible((new,), ALL_DEFENCES) == (new,)
    assert credible((waiting,), ALL_DEFENCES - {Defence.PROOF}) == (waiting,)


def test_the_operators_ballots_count_at_once() -> None:
    (own,) = cast(ballot("own", "a"), network="")
    assert credible((replace(own, valid_in_row=0),), ALL_DEFENCES)


def test_who_is_not_counted_takes_no_place_of_the_network() -> None:
    first, second, third = cast(*(ballot(str(n), "a") for n in range(3)), network="home")
    counted = credible((replace(first, valid_in_row=0), second, third), ALL_DEFENCES)
    assert [each.ballot.identity for each in counted] == ["1"]


def test_a_line_that_its_own_measurement_contradicts_says_what_was_measured() -> None:
    lying = cast(ballot("attacker", "slow", time=0.4), measured={"slow": 1.5})
    (taken,) = credible(lying, ALL_DEFENCES)
    assert taken.relative_times == {"slow": 1.5}
    (believed,) = credible(lying, ALL_DEFENCES - {Defence.CONTROLS})
    assert believed.relative_times == {"slow": 0.4}


def test_a_line_measured_again_with_care_is_believed() -> None:
    honest = cast(ballot("honest", "fast", time=0.5), measured={"fast": 0.8})
    (taken,) = credible(honest, ALL_DEFENCES)
    assert taken.relative_times == {"fast": 0.5}
