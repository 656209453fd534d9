"""A lease is filled by roles."""

from dataclasses import replace
from random import Random

import pytest

from kernelzoo.domain.lease import FINALISTS, LEADERS, LentRole, voters
from kernelzoo.store.prospects import ProspectRow
from services.gateway.lending import COMPARED, KNOWN_BY, LeasePlan, plan
from tests.unit.gateway.spaces import (
    ALONE,
    COVERED,
    FIVE,
    SPACE,
    STRANGERS,
    measured,
    names,
    new,
    planned,
)


def test_who_is_alone_is_lent_the_first_of_the_space() -> None:
    found = planned(SPACE, ALONE)
    assert names(found, LentRole.EXPLORE) == [f"k{place:02}" for place in range(8)]
    assert (found.unmeasured, found.complete) == (12, False)


def test_who_shares_is_lent_half_of_an_equal_part() -> None:
    assert len(planned(SPACE, replace(ALONE, sharers=3)).items) == 4
    assert len(planned(SPACE, replace(STRANGERS, sharers=3)).items) == 7
    assert len(planned(SPACE, replace(ALONE, sharers=100)).items) == 2


def test_what_the_fewest_have_comes_first_and_what_enough_have_not_at_all() -> None:
    first, second, *rest = SPACE[:5]
    space = [replace(first, lent=1), replace(second, answered=1, lent=1), *rest]
    assert names(planned(space, STRANGERS), LentRole.EXPLORE) == ["k02", "k03", "k04", "k00"]


def test_what_a_newer_browser_measures_again_is_lent_though_it_is_covered_and_leads_nothing() -> (
    None
):
    first, *rest = [measured(place, 5, mine=True) for place in range(20)]
    found = planned([replace(first, mine=False, again=True), *rest], STRANGERS)
    assert found.items == (("k00", LentRole.EXPLORE),)
    assert found.complete


def test_who_finds_all_in_the_hands_of_others_helps_with_what_was_lent_last_and_then_waits() -> (
    None
):
    held = [replace(each, lent=1) for each in SPACE]
    found = planned(held, ALONE)
    assert (found.items, found.complete) == ((("k19", LentRole.EXPLORE),), False)
    assert plan([replace(each, lent=2) for each in SPACE], ALONE, Random(1)) is None


def test_an_expired_share_of_another_is_lent_again() -> None:
    space = [*COVERED[:19], SPACE[19]]
    assert names(planned(space, ALONE), LentRole.EXPLORE) == ["k19"]


def test_the_leaders_wait_for_what_is_still_compiled() -> None:
    space = [*COVERED[:19], replace(SPACE[19], compiled=False)]
    assert plan(space, ALONE, Random(1)) is None


def test_the_faster_a_kernel_the_more_are_to_measure_it() -> None:
    assert [voters(rank, 5) for rank in (1, 2, 3, 4, 5, 9, 10)] == [5, 5, 4, 3, 2, 2, 1]
    assert [voters(rank, 2) for rank in (1, 2, 3, 4)] == [2, 2, 2, 1]
    assert voters(1, 1) == 1


def test_once_all_is_measured_the_fastest_are_lent_to_as_many_as_are_still_to_measure_them() -> (
    None
):
    found = planned(COVERED, FIVE)
    assert names(found, LentRole.LEADER) == ["k19", "k18", "k17", "k16"], "a fifth of 18"
    assert not found.complete
    space = [*COVERED[:18], measured(18, 5), replace(measured(19), lent=4)]
    assert names(planned(space, FIVE), LentRole.LEADER) == ["k17", "k16"]


def test_what_is_far_behind_the_first_is_not_measured_by_more() -> None:
    far = [replace(each, relative_time=2.0) for each in COVERED[:18]]
    space = [*far, measured(18, 5, mine=True), measured(19, 5, mine=True)]
    assert planned(space, FIVE).complete


def prepared(place: int, preparation: float, *, by: int = 1, mine: bool = False) -> ProspectRow:
    return replace(measured(place, by, mine=mine), relative_preparation=preparation)


def test_what_costs_less_for_few_runs_is_lent_to_a_quorum_after_the_leaders() -> None:
    """One candidate of each number of runs, however many are cheap."""
    usual = [prepared(place, 500.0) for place in range(17)]
    cheap = [prepared(3, 1.0), prepared(8, 4.0), prepared(5, 6.0)]
    costs = {each.candidate_id: each for each in cheap}
    leading = [prepared(place, 500.0, by=5) for place in range(17, 20)]
    space = [costs.get(each.candidate_id, each) for each in usual] + leading
    alone = replace(FIVE, sharers=1, limit=40)
    # Totals of 1 and 30 runs: k03 1.97 and 30.1, k08 4.92 and 31.6; of the fastest 500 and more.
    assert names(planned(space, alone), LentRole.FEW_RUNS) == ["k03"]
    slower = [replace(each, relative_time=1.5) if each == cheap[0] else each for each in space]
    # Of k03 2.5 and 46 now.
    assert names(planned(slower, alone), LentRole.FEW_RUNS) == ["k03", "k08"]
    known = [replace(each, answered=5) if each == cheap[0] else each for each in space]
    assert names(planned(known, alone), LentRole.FEW_RUNS) == []


def test_nothing_is_lent_for_few_runs_that_is_never_offered() -> None:
    """These are twice as slow, save less than noise, or are beaten in both."""
    leading = [prepared(place, 100.0, by=5, mine=True) for place in (18, 19)]

    def lent(*others: ProspectRow) -> list[str]:
        return names(planned([*others, *leading], FIVE), LentRole.FEW_RUNS)

    slow = replace(prepared(0, 1.0), relative_time=2.0)
    assert lent(slow) == []
    assert lent(prepared(0, 99.0)) == []
    assert lent(prepared(0, 20.0), prepared(1, 10.0)) == ["k01"]
    assert lent(prepared(0, 20.0), measured(1)) == ["k00"]
    assert lent(replace(prepared(0, 20.0), mine=True)) == []


def test_who_is_left_waits_for_what_may_still_change_the_winner() -> None:
    space = [*COVERED[:10], *(replace(measured(place), lent=4) for place in range(10, 20))]
    assert plan(space, FIVE, Random(1)) is None
    known = [*COVERED[:10], *(measured(place, 5) for place in range(10, 19))]
    assert planned([*known, replace(measured(19, 5), lent=1)], FIVE).complete


def test_who_closes_measures_the_finalists_and_one_that_does_not_lead() -> None:
    found = planned(COVERED, ALONE)
    assert names(found, LentRole.LEADER) == ["k19", "k18"]
    assert len(names(found, LentRole.LEADER)) == FINALISTS
    assert names(found, LentRole.EXPLORE) == ["k00"]
    assert (found.unmeasured, found.complete) == (0, True)


def test_a_stranger_closes_with_all_leaders() -> None:
    found = planned([replace(each, answered=2) for each in COVERED], replace(STRANGERS, limit=16))
    assert names(found, LentRole.LEADER) == [f"k{place}" for place in range(19, 11, -1)]
    assert len(names(found, LentRole.LEADER)) == LEADERS
    assert names(found, LentRole.EXPLORE) == ["k00"]


def test_leaders_that_do_not_fit_come_with_the_next_lease_which_closes() -> None:
    found = planned([replace(each, answered=2) for each in COVERED], STRANGERS)
    assert (len(found.items), found.unmeasured, found.complete) == (8, 1, False)


def test_who_has_explored_measures_the_finalists_alone() -> None:
    space = [measured(0, mine=True), *COVERED[1:]]
    found = planned(space, ALONE)
    assert [role for _, role in found.items] == [LentRole.LEADER] * FINALISTS
    assert found.complete


def test_the_last_part_of_the_space_closes_for_who_has_measured_the_rest() -> None:
    space = [new(0), *(measured(place, mine=True) for place in range(1, 20))]
    assert planned(space, ALONE).complete
    space[1] = replace(space[1], mine=False)
    found = planned(space, ALONE)
    assert found.items == (("k00", LentRole.EXPLORE),)
    assert not found.complete, "it may lead, and the other be a finalist"


def test_who_has_measured_all_that_it_must_closes_with_an_empty_lease_once() -> None:
    space = [replace(each, mine=True) for each in COVERED]
    fastest = ("k19", "k18", "k17", "k16")
    closing = LeasePlan(items=(), unmeasured=0, complete=True, finalists=fastest)
    assert planned(space, ALONE) == closing
    assert plan(space, replace(ALONE, closed=True), Random(1)) is None


def test_who_measured_what_nobody_else_can_closes_although_one_more_was_wanted() -> None:
    assert planned([measured(place, 0, mine=True) for place in range(9)], STRANGERS).complete


def test_the_champion_is_lent_to_who_has_not_measured_it_even_after_its_share() -> None:
    space = [replace(COVERED[0], champion=True), *COVERED[1:]]
    closed = replace(ALONE, closed=True)
    assert planned(space, closed).items == (("k00", LentRole.CHAMPION),)
    assert planned(space, closed).complete
    space[0] = replace(space[0], mine=True)
    assert plan(space, closed, Random(1)) is None


def test_a_champion_that_is_not_the_default_is_lent_once_the_space_is_explored() -> None:
    first, *rest = SPACE
    known = replace(first, champion=True, answered=KNOWN_BY, known_by=KNOWN_BY)
    assert names(planned([known, *rest], ALONE), LentRole.CHAMPION) == []
    space = [replace(COVERED[3], champion=True), *COVERED[:3], *COVERED[4:]]
    assert names(planned(space, ALONE), LentRole.CHAMPION) == ["k03"]
    beside = replace(ALONE, reference_id="k03")
    assert names(planned(space, beside), LentRole.CHAMPION) == []
    assert plan(space, replace(beside, closed=True), Random(1)) is None


def test_a_tenth_of_a_lease_are_winners_of_similar_devices_the_most_similar_first() -> None:
    space = [*SPACE[:17], *(replace(new(17 + place), similar=1 - place // 2) for place in range(3))]
    found = planned(space, ALONE)
    assert names(found, LentRole.VALIDATE) == ["k19"]
    assert found.items[0] == ("k19", LentRole.VALIDATE)
    assert len(names(planned(space, replace(ALONE, limit=16)), LentRole.VALIDATE)) == 2


def test_a_control_is_any_whose_time_enough_others_know() -> None:
    space = [*(measured(place, KNOWN_BY) for place in range(10)), *SPACE[10:]]
    always = replace(ALONE, recheck=1)
    plans = [plan(space, always, Random(seed)) for seed in range(200)]
    drawn = [names(each, LentRole.CONTROL) for each in plans if each is not None]
    assert all(len(each) == 1 for each in drawn)
    assert {name for (name,) in drawn} == {f"k{place:02}" for place in range(10)}
    at = {[role for _, role in each.items].index(LentRole.CONTROL) for each in plans if each}
    assert at == set(range(8)), "a control is found by its place"
    assert all(len(each.items) == 8 for each in plans if each)


def test_what_no_more_than_cover_a_kernel_called_slow_is_measured_again_in_a_controls_place() -> (
    None
):
    """The first twelve of twenty are slow, which is what one of two attackers may have said."""
    space = [measured(place, KNOWN_BY - 1) for place in range(20)]
    always = replace(STRANGERS, recheck=1)
    plans = [plan(space, always, Random(seed)) for seed in range(200)]
    drawn = {name for each in plans if each for name in names(each, LentRole.CONTROL)}
    assert drawn == {f"k{place:02}" for place in range(20 - LEADERS)}


def test_a_quarter_of_the_controls_are_known_to_enough_where_others_are_called_slow() -> None:
    slow = [measured(place, KNOWN_BY - 1) for place in range(12)]
    space = [*slow, *(measured(place, KNOWN_BY) for place in range(12, 20))]
    always = replace(STRANGERS, recheck=1)
    plans = [plan(space, always, Random(seed)) for seed in range(400)]
    drawn = [name for each in plans if each for name in names(each, LentRole.CONTROL)]
    assert 60 < sum(name >= "k12" for name in drawn) < 140


QUORUM_OF_STRANGERS = replace(STRANGERS, quorum=5)
LEADING = [measured(place, 4, mine=True) for place in range(12, 20)]


def disputed(place: int, fastest: float, *, by: int = 5) -> ProspectRow:
    """One finds it so fast, the others twice as slow as the default."""
    return replace(measured(place, by), relative_time=2.0, fastest=fastest)


def test_what_one_network_alone_puts_among_the_leaders_is_measured_before_what_is_slow() -> None:
    """The fastest in the place of a control, and two with the lease that closes a share."""
    told = [disputed(0, 0.7), disputed(1, 0.5), disputed(2, 0.6), disputed(3, 2.0, by=2)]
    found = planned([*told, *LEADING], QUORUM_OF_STRANGERS)
    assert found.items == tuple((name, LentRole.EXPLORE) for name in ("k01", "k02", "k03"))
    assert found.complete
    always = replace(QUORUM_OF_STRANGERS, recheck=1)
    plans = [plan([*told, *LEADING], always, Random(seed)) for seed in range(200)]
    drawn = [name for each in plans if each for name in names(each, LentRole.CONTROL)]
    assert drawn.count("k01") > 120


@pytest.mark.parametrize(
    "told",
    [
        disputed(0, 0.7, by=10),
        replace(disputed(0, 0.7), relative_time=0.76),
        disputed(0, 0.9),
        replace(disputed(0, 0.7), mine=True),
    ],
    ids=["by many", "by less than noise", "behind the leaders", "by itself"],
)
def test_a_kernel_is_not_disputed(told: ProspectRow) -> None:
    least = disputed(3, 2.0, by=2)
    found = planned([told, least, *LEADING], QUORUM_OF_STRANGERS)
    assert names(found, LentRole.EXPLORE) == ["k03"]


def test_ones_own_agents_dispute_nothing() -> None:
    space = [disputed(0, 0.5), *LEADING]
    assert planned(space, replace(FIVE, sharers=1)).items == (("k00", LentRole.EXPLORE),)
    explored = [replace(disputed(1, 2.0), mine=True), *space]
    assert planned(explored, replace(FIVE, sharers=1)).items == ()


def test_what_one_alone_called_slow_is_no_control() -> None:
    space = [*(measured(place, 1) for place in range(10)), *SPACE[10:]]
    assert names(planned(space, replace(STRANGERS, recheck=1)), LentRole.CONTROL) == []


def test_a_control_is_one_that_was_measured_before_only_where_no_other_is_known() -> None:
    mine = [measured(place, KNOWN_BY, mine=True) for place in range(10)]
    always = replace(ALONE, recheck=1)
    (again,) = names(planned([*mine, *SPACE[10:]], always), LentRole.CONTROL)
    assert again < "k10"
    space = [*mine, measured(10, KNOWN_BY), *SPACE[11:]]
    assert names(planned(space, always), LentRole.CONTROL) == ["k10"]


def test_controls_are_drawn_as_often_as_they_are_asked_for() -> None:
    space = [*(measured(place, KNOWN_BY) for place in range(10)), *SPACE[10:]]
    plans = [plan(space, replace(ALONE, recheck=0.1), Random(seed)) for seed in range(400)]
    drawn = sum(bool(each and names(each, LentRole.CONTROL)) for each in plans)
    assert 15 < drawn < 80


def test_no_lease_is_made_for_a_control_alone() -> None:
    space = [measured(place, KNOWN_BY, mine=True) for place in range(9)]
    assert planned(space, replace(ALONE, recheck=1)).items == ()


def test_who_closes_its_share_compares_what_is_served_and_what_leads_the_class() -> None:
    """They are some that it has measured or is lent; the rest it chooses itself."""
    space = [measured(place, mine=place != 18) for place in range(20)]
    space[3] = replace(space[3], champion=True)
    space[18] = replace(space[18], compiled=False)
    found = planned(space, ALONE)
    assert found.complete
    assert found.finalists == ("k03", "k19", "k17", "k16")
    assert len(found.finalists) == COMPARED


def test_who_goes_on_compares_nothing_yet() -> None:
    assert planned(SPACE, ALONE).finalists == ()
