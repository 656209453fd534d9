"""What many classes have in common, for devices of which nothing is known."""

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


def test_the_least_mean_slowdown_wins_whatever_the_unit_of_each_class() -> None:
    found = best(on_class(1, a=100, b=110), on_class(2, a=0.2, b=0.1))
    assert (found.candidate_id, found.classes, found.identities) == ("b", 2, 10)
    assert found.relative_time == 1.05


def test_a_kernel_that_few_classes_measured_is_not_common() -> None:
    alone = on_class(1, a=1, b=1.1, special=0.5)
    found = best(alone, on_class(2, a=1, b=1.1), on_class(3, a=1, b=1.1))
    assert found.candidate_id == "a"


def test_classes_of_another_primitive_vector_do_not_speak() -> None:
    pooled = common_kernels([*on_class(1, a=1, b=2), *on_class(2, "r1-1", a=2, b=1)])
    best_of = {kernel.group.rho: kernel.candidate_id for kernel in reversed(pooled)}
    assert best_of == {"r1-0": "a", "r1-1": "b"}
    assert {kernel.group.scope for kernel in pooled} == {HitLevel.COMMON}


def test_nothing_comes_of_nothing() -> None:
    assert common_kernels([]) == ()
