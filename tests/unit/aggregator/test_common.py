"""What many classes have in common, for devices of which nothing is known."""

from dataclasses import replace
from math import sqrt

import pytest

from kernelzoo.domain.device import DeviceClass
from kernelzoo.domain.kinship import families
from kernelzoo.domain.target import TargetKind
from kernelzoo.domain.zoo import HitLevel
from services.aggregator.common import ClassTime, CommonKernel, common_kernels


def on_class(number: int, rho: str = "r1-0", **times: float) -> list[ClassTime]:
    device_class = DeviceClass.parse(f"{number:016x}:{rho}:wasm")
    return [
        ClassTime(
            device_class=device_class,
            families=families(None, TargetKind.WASM),
            candidate_id=candidate_id,
            relative_time=time,
            identities=5,
        )
        for candidate_id, time in times.items()
    ]


def best(*times: list[ClassTime]) -> CommonKernel:
    return common_kernels(time for of_class in times for time in of_class)[0]


def best_by_rho(*times: list[ClassTime]) -> dict[str, str]:
    pooled = common_kernels(time for of_class in times for time in of_class)
    return {kernel.group.rho: kernel.candidate_id for kernel in reversed(pooled)}


def test_the_least_mean_slowdown_wins_whatever_the_unit_of_each_class() -> None:
    found = best(on_class(1, a=100, b=110), on_class(2, a=0.2, b=0.1))
    assert (found.candidate_id, found.classes, found.identities) == ("b", 2, 10)
    assert found.relative_time == pytest.approx(sqrt(1.1))


def test_one_class_on_which_a_kernel_was_disturbed_does_not_decide() -> None:
    """By the mean of the times `b` would win, with 1.43 against 1.57."""
    usual = [on_class(number, a=1, b=1.5) for number in range(1, 6)]
    assert best(*usual, on_class(6, a=5, b=1), on_class(7, a=1, b=1.5)).candidate_id == "a"


def test_a_group_of_one_class_hears_the_wider_one() -> None:
    """What is a little slower there and much faster everywhere else is the better guess."""
    others = [on_class(number, "r1-0", a=1.5, b=1) for number in range(1, 6)]
    alone = on_class(6, "r1-1", a=1, b=1.1)
    assert best_by_rho(alone, *others)["r1-1"] == "b"


def test_a_group_of_many_classes_keeps_its_own_mind() -> None:
    others = [on_class(number, "r1-0", a=1.5, b=1) for number in range(1, 6)]
    group = [on_class(number, "r1-1", a=1, b=1.5) for number in range(6, 11)]
    assert best_by_rho(*group, *others) == {"r1-0": "b", "r1-1": "a"}


def test_an_architecture_hears_the_others_through_those_with_its_vector() -> None:
    """What its only class has never seen well is told by the common group."""
    families = {HitLevel.ARCHITECTURE: "one", HitLevel.COMMON: ""}
    alone = [replace(time, families=families) for time in on_class(6, a=1, b=1.1)]
    others = [on_class(number, a=1.5, b=1) for number in range(1, 6)]
    pooled = common_kernels([*alone, *(time for of_class in others for time in of_class)])
    told = [kernel for kernel in pooled if kernel.group.scope is HitLevel.ARCHITECTURE]
    assert (told[0].candidate_id, told[0].classes, told[0].identities) == ("b", 1, 5)


def test_a_kernel_that_few_classes_measured_is_not_common() -> None:
    alone = on_class(1, a=1, b=1.1, special=0.5)
    found = best(alone, on_class(2, a=1, b=1.1), on_class(3, a=1, b=1.1))
    assert found.candidate_id == "a"


def test_classes_of_another_primitive_vector_do_not_outvote() -> None:
    first, second = on_class(1, a=1, b=2), on_class(2, "r1-1", a=2, b=1)
    assert best_by_rho(first, second) == {"r1-0": "a", "r1-1": "b"}
    scopes = {kernel.group.scope for kernel in common_kernels([*first, *second])}
    assert scopes == {HitLevel.COMMON}


def test_nothing_comes_of_nothing() -> None:
    assert common_kernels([]) == ()
