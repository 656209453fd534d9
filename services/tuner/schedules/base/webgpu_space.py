"""From the configs of a family to the lite space of a workload on a model of GPU."""

from collections.abc import Sequence
from typing import TypeVar

from kernelzoo.domain.candidate import Candidate
from kernelzoo.domain.gpu import ANY_GPU, SOFTWARE_DRIVER, Driver, GpuModel
from kernelzoo.domain.workload import Workload
from services.tuner.schedules.base.f16_storage import with_native_f16
from services.tuner.schedules.base.webgpu_config import WebgpuConfig

C = TypeVar("C", bound=WebgpuConfig)

MOST_F16, MOST_NATIVE_F16 = 80, 56
"""Points of a space of f16, and those of them that need shader-f16. The best configs of f32 for
networks on an H200 are among the first 56. Packed ones fill what is left, so that adapters without
any feature have enough of them."""


def webgpu_space(
    configs: Sequence[WebgpuConfig], workload: Workload, gpu: GpuModel
) -> tuple[Candidate, ...]:
    """The first requires nothing that not every adapter has.

    Constant weights have the space of all others: no kernel wants them in panels.
    """
    found = _compilable(configs, workload, gpu)
    plain = tuple(config.candidate(workload) for config in found)
    return _in_both_ways(plain) if workload.stores_f16 else plain


def plain_first(configs: Sequence[C], workload: Workload, gpu: GpuModel) -> tuple[C, ...]:
    """Keeps the order of configs, but for the first of those that require nothing and that the
    model's driver compiles, which leads; for any GPU behind the first that a driver without any GPU
    compiles."""
    drivers = (SOFTWARE_DRIVER, gpu.driver) if gpu is ANY_GPU else (gpu.driver,)
    plain = [one for one in configs if not one.requires(workload)]
    leading = dict.fromkeys(
        next(one for one in plain if _compiles(one, workload, driver)) for driver in drivers
    )
    return (*leading, *(one for one in configs if one not in leading))


def in_turns(first: Sequence[C], second: Sequence[C]) -> tuple[C, ...]:
    """Both in their order, spread evenly."""
    places = [(n / len(each), one) for each in (first, second) for n, one in enumerate(each)]
    return tuple(one for _, one in sorted(places, key=lambda place: place[0]))


def _compilable(
    configs: Sequence[WebgpuConfig], workload: Workload, gpu: GpuModel
) -> tuple[WebgpuConfig, ...]:
    """Keeps the configs that the model's driver compiles. The first for any GPU is one that a
    driver without any GPU compiles too: it is what a device is given while nothing else is known of
    it."""
    found = tuple(one for one in configs if _compiles(one, workload, gpu.driver))
    if gpu is not ANY_GPU:
        return found
    needs = min((one.requires(workload) for one in found), key=len)
    first = next(
        one
        for one in found
        if _compiles(one, workload, SOFTWARE_DRIVER) and one.requires(workload) == needs
    )
    return (first, *(one for one in found if one != first))


def _compiles(config: WebgpuConfig, workload: Workload, driver: Driver) -> bool:
    """Returns whether a driver compiles the kernel in two seconds, told before it is lowered."""
    if config.workgroup_bytes_for(workload) > driver.workgroup_bytes:
        return False
    return config.statements(workload) <= driver.statements


def _in_both_ways(packed: tuple[Candidate, ...]) -> tuple[Candidate, ...]:
    """Every config once before any is repeated: its two ways to store f16 differ by 15 % at most
    on an H200, configs by half. Without shader-f16 the packed ones are left, in their order."""
    first, *others = packed
    native = [with_native_f16(one) for one in others[: MOST_NATIVE_F16 - 1]]
    left = MOST_F16 - len(native) - 2
    return (first, *native, with_native_f16(first), *others[:left])
