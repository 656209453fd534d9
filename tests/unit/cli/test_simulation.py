"""The imperfections of invented devices: as large as their constants say, and never by chance."""

from dataclasses import replace
from random import Random
from statistics import fmean, median

import pytest

from cli.simulate.conduct import FALL, UNALIKE, Condition, condition, honest_timing
from cli.simulate.members import members_of, phases_of, raiders_of, session_of
from cli.simulate.scenario import FAMILY, INVENTED, Attack, Scenario
from cli.simulate.world import World

MEMBERS = [condition(1, f"collude-20-0/0/{place}") for place in range(400)]
SPACE = [f"kernel-{number}" for number in range(30)]


def correlation(first: list[float], second: list[float]) -> float:
    def ranks(times: list[float]) -> list[float]:
        return [sorted(times).index(time) - (len(times) - 1) / 2 for time in times]

    a, b = ranks(first), ranks(second)
    return sum(x * y for x, y in zip(a, b, strict=True)) / sum(x * x for x in a)


def times(device: str) -> list[float]:
    return [World(seed=1, flops=1000).call_ns(device, name) for name in SPACE]


def test_a_condition_follows_from_the_seed_alone() -> None:
    assert condition(1, "a/b/0") == condition(1, "a/b/0") != condition(2, "a/b/0")
    assert MEMBERS[0].slowdown("kernel", 7) == MEMBERS[0].slowdown("kernel", 7)


def test_a_quarter_is_busy_slower_and_noisier() -> None:
    busy = [member for member in MEMBERS if member.load > 1]
    assert 0.2 < len(busy) / len(MEMBERS) < 0.3
    assert 1.7 < fmean(member.load for member in busy) < 2.3
    assert {member.noise for member in busy} == {2.0}


def test_a_device_slows_down_over_minutes_and_kernels_nearly_alike() -> None:
    hot = Condition(member="m", load=1.0, fall=FALL)
    falls = [hot.slowdown(name, 1000) / hot.slowdown(name, 0) for name in SPACE]
    assert max(falls) <= 1 / (1 - FALL)
    assert min(falls) >= 1 + (1 - UNALIKE) * (1 / (1 - FALL) - 1)
    assert len(set(falls)) == len(SPACE)
    assert hot.slowdown("kernel", 10) < hot.slowdown("kernel", 60) < hot.slowdown("kernel", 200)


def test_a_busy_member_tells_nearly_the_relative_time_of_an_idle_one() -> None:
    chance = Random(1)
    busy = Condition(member="m", load=3.0, fall=0.0)
    told = [honest_timing(chance, busy, 600.0, 300.0).relative_time for _ in range(200)]
    assert 1.95 < median(told) < 2.05


def test_relatives_rank_a_space_more_alike_than_strangers() -> None:
    related = fmean(correlation(times(f"f{n}/0"), times(f"f{n}/1")) for n in range(20))
    strange = fmean(correlation(times(f"f{n}/0"), times(f"g{n}/0")) for n in range(20))
    assert 0.1 < strange < 0.4 < related < 0.75


def test_relatives_tell_one_architecture_and_are_classes_of_their_own() -> None:
    scenario = Scenario(
        attack=Attack.COLLUDE,
        malicious_share=0.2,
        classes=FAMILY + 1,
        identities=1,
        workloads=(),
        seed=1,
    )
    told = [session_of(member).hardware for member in members_of(scenario)]
    assert len({each.cpu_architecture for each in told}) == 2
    assert len({(each.cpu_architecture, each.logical_cores) for each in told}) == FAMILY + 1


def scenario(attack: Attack) -> Scenario:
    return Scenario(
        attack=attack, malicious_share=0.2, classes=FAMILY + 1, identities=10, workloads=(), seed=1
    )


def networks(addresses: list[str]) -> set[str]:
    return {address.rpartition(".")[0] for address in addresses}


def test_the_same_few_networks_lie_in_every_class_and_no_honest_visitor_shares_one() -> None:
    members = members_of(scenario(Attack.MINT))
    attackers = [member for member in members if member.lies]
    honest = [member for member in members if not member.lies]
    assert len(networks([member.address for member in attackers])) == 2
    assert len({member.identity for member in attackers}) == 10, "five of each network"
    assert len(attackers) == 10 * (FAMILY + 1), "and all of them in each class"
    lying, own = (networks([member.address for member in each]) for each in (attackers, honest))
    assert not lying & own
    assert len(own) == len(honest)


def test_who_comes_first_comes_before_anybody_honest() -> None:
    first, then = phases_of(scenario(Attack.COLD))
    assert {member.lies for member in first} == {True}
    assert {member.lies for member in then} == {False}
    assert len(phases_of(scenario(Attack.MINT))) == 1


def test_invented_classes_tell_the_architecture_of_a_family_and_are_nobodys() -> None:
    members = members_of(scenario(Attack.INVENT))
    invented = {member.hardware for member in members if member.invented}
    real = {member.hardware for member in members if not member.invented}
    assert len(invented) == 2 * INVENTED
    assert {each.cpu_architecture for each in invented} == {each.cpu_architecture for each in real}
    assert not invented & real
    assert all(member.invented or not member.lies for member in members)


def test_raiders_visit_every_class_of_honest_visitors() -> None:
    raiders = raiders_of(scenario(Attack.DENY))
    honest = [m for m in members_of(scenario(Attack.DENY)) if not m.lies]
    assert {member.device for member in raiders} == {member.device for member in honest}


@pytest.mark.parametrize("attack", list(Attack))
def test_without_attackers_the_same_honest_visitors_come(attack: Attack) -> None:
    disturbed, peaceful = scenario(attack), replace(scenario(attack), peaceful=True)
    honest = {member for member in members_of(disturbed) if not member.lies}
    assert set(members_of(peaceful)) == honest
    assert raiders_of(peaceful) == []
    assert [set(phase) for phase in phases_of(peaceful)] == [honest]
