"""The common best: of many classes the kernel with the least mean relative time.

As CLBlast chooses for a device that nobody tuned, first of its architecture, then of its vendor,
then of all devices: of the kernels that most of these classes have measured, the one that loses
least on average. Classes are parted by their primitive vector first, which tells those apart whose
best kernels differ most.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from statistics import fmean

from kernelzoo.domain.device import DeviceClass
from kernelzoo.domain.kinship import Families
from kernelzoo.domain.zoo import HitLevel

MOST = 0.5
"""Share of the classes of a group that must have measured a kernel. Classes differ in features, so
that some kernels can never be measured by all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassTime:
    """A kernel on a class; times of one class share their unit."""

    device_class: DeviceClass
    families: Families
    candidate_id: str
    relative_time: float
    identities: int


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Group:
    """Classes that are pooled: of one family, with one primitive vector."""

    scope: HitLevel
    family: str
    rho: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CommonKernel:
    """`relative_time`: mean over `classes` of the time over that of the fastest known there."""

    group: Group
    candidate_id: str
    relative_time: float
    classes: int
    identities: int


def common_kernels(times: Iterable[ClassTime]) -> tuple[CommonKernel, ...]:
    """Of each group the kernels that most of its classes have measured, the best first."""
    by_group: dict[Group, list[ClassTime]] = defaultdict(list)
    for time in _over_the_fastest(times):
        for scope, family in time.families.items():
            rho = str(time.device_class.rho)
            by_group[Group(scope=scope, family=family, rho=rho)].append(time)
    return tuple(kernel for group in sorted(by_group) for kernel in _of(group, by_group[group]))


def _over_the_fastest(times: Iterable[ClassTime]) -> Iterator[ClassTime]:
    by_class: dict[DeviceClass, list[ClassTime]] = defaultdict(list)
    for time in times:
        by_class[time.device_class].append(time)
    for of_class in by_class.values():
        fastest = min(time.relative_time for time in of_class)
        for time in of_class:
            yield ClassTime(
                device_class=time.device_class,
                families=time.families,
                candidate_id=time.candidate_id,
                relative_time=time.relative_time / fastest,
                identities=time.identities,
            )


def _of(group: Group, times: list[ClassTime]) -> list[CommonKernel]:
    by_candidate: dict[str, list[ClassTime]] = defaultdict(list)
    for time in times:
        by_candidate[time.candidate_id].append(time)
    enough = MOST * len({time.device_class for time in times})
    kernels = (
        CommonKernel(
            group=group,
            candidate_id=candidate_id,
            relative_time=fmean(time.relative_time for time in found),
            classes=len(found),
            identities=sum(time.identities for time in found),
        )
        for candidate_id, found in by_candidate.items()
        if len(found) >= enough
    )
    return sorted(kernels, key=lambda kernel: (kernel.relative_time, kernel.candidate_id))
