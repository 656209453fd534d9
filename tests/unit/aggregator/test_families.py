"""Many classes have something in common, for devices of which nothing is known."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from math import exp, sqrt
from random import Random
from statistics import fmean

import pytest

from cli.simulate.world import World
from kernelzoo.domain.device import DeviceClass
from kernelzoo.domain.kinship import families
from kernelzoo.domain.target import TargetKind
from kernelzoo.domain.zoo import HitLevel
from services.aggregator.families import ClassTime, CommonKernel, common_kernels, trimmed_mean


def on_class(number: int, rho: str = "r1-0", **times: float) -> list[ClassTime]:
    device_class = DeviceClass.parse(f"{number:016x}:{rho}:wasm")
    return [
        ClassTime(
            device_class=device_class,
            families=families(None, TargetKind.WASM),
            candidate_id=candidate_id,
            relative_time=time,
            identities=5,
            voices=1,
            operated=True,
        )
        for candidate_id, time in times.items()
    ]


def weighing(voices: int, of_class: list[ClassTime]) -> list[ClassTime]:
    """A class of so many strangers."""
    return [replace(time, voices=voices, operated=False) for time in of_class]


OTHERS = range(2, 7)


def aggregated(
    *classes: list[ClassTime], malicious_share: float = 0.0, minimum: int = 10
) -> tuple[CommonKernel, ...]:
    times = (time for of_class in classes for time in of_class)
    return common_kernels(times, malicious_share=malicious_share, minimum=minimum)


def best(*times: list[ClassTime], malicious_share: float = 0.0) -> CommonKernel:
    return aggregated(*times, malicious_share=malicious_share)[0]


def best_by_rho(*times: list[ClassTime]) -> dict[str, str]:
    return {kernel.group.rho: kernel.candidate_id for kernel in reversed(aggregated(*times))}


def test_the_least_mean_slowdown_wins_whatever_the_unit_of_each_class() -> None:
    found = best(on_class(1, a=100, b=110), on_class(2, a=0.2, b=0.1))
    assert (found.candidate_id, found.classes, found.identities) == ("b", 2, 10)
    assert found.relative_time == pytest.approx(sqrt(1.1))


def test_one_class_on_which_a_kernel_was_disturbed_does_not_decide() -> None:
    """By the mean of the times `b` would win, with 1.43 against 1.57."""
    usual = [on_class(number, a=1, b=1.5) for number in range(1, 6)]
    assert best(*usual, on_class(6, a=5, b=1), on_class(7, a=1, b=1.5)).candidate_id == "a"


def of_family(
    family: str, numbers: Iterable[int], times: Mapping[str, float], rho: str = "r1-0"
) -> list[ClassTime]:
    families = {HitLevel.ARCHITECTURE: family, HitLevel.COMMON: ""}
    found = [time for number in numbers for time in on_class(number, rho, **times)]
    return [replace(time, families=families) for time in found]


def best_of(family: str, *times: list[ClassTime]) -> CommonKernel:
    return next(kernel for kernel in aggregated(*times) if kernel.group.family == family)


def test_a_family_of_one_class_hears_the_wider_one() -> None:
    """A kernel that is a little slower there and much faster everywhere else is the better
    guess."""
    found = best_of(
        "one",
        of_family("one", [1], {"a": 1, "b": 1.1}),
        of_family("more", OTHERS, {"a": 1.5, "b": 1}),
    )
    assert (found.candidate_id, found.classes, found.identities) == ("b", 1, 5)


def test_a_family_of_many_classes_keeps_its_own_mind() -> None:
    many = of_family("many", range(10, 15), {"a": 1, "b": 1.4})
    assert best_of("many", many, of_family("more", OTHERS, {"a": 1.5, "b": 1})).candidate_id == "a"


def test_classes_with_another_primitive_vector_are_heard_as_the_widest_family() -> None:
    alone = of_family("one", [1], {"a": 1, "b": 1.1})
    others = of_family("more", OTHERS, {"a": 1.5, "b": 1}, rho="r1-1")
    assert best_of("one", alone, others).candidate_id == "b"
    several = of_family("one", range(10, 14), {"a": 1, "b": 1.1})
    assert best_of("one", several, others).candidate_id == "a"


@pytest.mark.parametrize("noise", [0.0, 0.1])
def test_relatives_of_invented_devices_foretell_more_with_all_others_than_alone(
    noise: float,
) -> None:
    """Families of two: what the one is served where only the other has voted."""
    kernels, names = [f"kernel {number}" for number in range(20)], ("0", "1")
    world, chance = World(seed=1, flops=1_000_000), Random(1)
    true = {
        (family, name): {each: world.call_ns(f"{family}/{name}", each) for each in kernels}
        for family in range(30)
        for name in names
    }
    told = {
        device: {each: time * exp(chance.gauss(0, noise)) for each, time in times.items()}
        for device, times in true.items()
    }
    zoo = {
        (family, name): of_family(f"family {family}", [2 * family + int(name)], told[family, name])
        for family, name in told
    }

    def lost(family: int, *, heard: bool) -> float:
        others = [zoo[each] for each in zoo if heard and each[0] != family]
        served = best_of(f"family {family}", zoo[family, "0"], *others).candidate_id
        times = true[family, "1"]
        return times[served] / min(times.values()) - 1

    alone, together = (
        fmean(lost(family, heard=heard) for family in range(30)) for heard in (False, True)
    )
    assert together < alone


def test_a_kernel_that_few_classes_measured_is_not_common() -> None:
    alone = on_class(1, a=1, b=1.1, special=0.5)
    found = best(alone, on_class(2, a=1, b=1.1), on_class(3, a=1, b=1.1))
    assert found.candidate_id == "a"


def test_classes_of_another_primitive_vector_do_not_speak() -> None:
    first, second = on_class(1, a=1, b=2), on_class(2, "r1-1", a=2, b=1)
    assert best_by_rho(first, second) == {"r1-0": "a", "r1-1": "b"}
    scopes = {kernel.group.scope for kernel in aggregated(first, second)}
    assert scopes == {HitLevel.COMMON}


def test_nothing_comes_of_nothing() -> None:
    assert aggregated() == ()


def test_a_class_weighs_as_many_voices_as_it_has_so_that_inventing_classes_gains_nothing() -> None:
    honest = weighing(20, on_class(1, a=1, b=1.5))
    invented = [weighing(1, on_class(number, a=9, b=1)) for number in range(2, 6)]
    assert best(honest, *invented, malicious_share=0.2).candidate_id == "a"
    assert best(honest, *invented).candidate_id == "b", "without trimming one may say anything"


def test_a_kernel_is_common_where_most_voices_measured_it_whatever_the_number_of_classes() -> None:
    honest = weighing(20, on_class(1, a=1, b=1.5))
    invented = [on_class(number, b=1) for number in range(2, 6)]
    assert best(honest, *invented, malicious_share=0.2).candidate_id == "a"


def test_few_voices_of_strangers_serve_nobody_and_are_heard_among_others() -> None:
    few = weighing(9, on_class(1, a=1, b=2))
    assert aggregated(few) == ()
    assert aggregated(few, weighing(1, on_class(2, a=1, b=2)))[0].candidate_id == "a"
    assert aggregated(few, on_class(2, a=1, b=2))[0].candidate_id == "a"


def test_a_trimmed_mean_leaves_weight_out_at_both_ends() -> None:
    assert trimmed_mean([(1, 1), (2, 1), (9, 2)], 0) == 5.25
    assert trimmed_mean([(100, 1), (2, 3), (-50, 1)], 0.2) == pytest.approx(2)
    assert trimmed_mean([(0, 1), (1, 1)], 0.2) == pytest.approx(0.5)
    assert trimmed_mean([(3, 7)], 0.45) == pytest.approx(3)
