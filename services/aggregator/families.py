"""Aggregates by family: of many classes the kernel that should lose least on one more of them.

As CLBlast chooses for a device that nobody tuned, first of its architecture, then of its vendor,
then of all devices, among the kernels that most of these classes have measured. Classes are parted
by their primitive vector first, which tells those apart whose best kernels differ most. What is
expected is the mean of the octaves by which a kernel misses the fastest of a class, and the next
wider family counts in it as one more class: one or two classes are a narrow experience. The widest
family is that of all classes, whatever their primitive vector.

A class weighs as many voices as it has voters of its own (`services.aggregator.speakers`), and the
share of voices that may collude is left out of the mean at both ends: however attackers distribute
their networks over classes, what they say is no further from the truth than what honest classes do.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from math import log2

from kernelzoo.domain.device import DeviceClass
from kernelzoo.domain.kinship import Families
from kernelzoo.domain.zoo import HitLevel

MOST = 0.5
"""Share of the classes of a group that must have measured a kernel. Classes differ in features, so
that some kernels can never be measured by all."""

WIDER = 1.0
"""Classes that the next wider family counts for. Were its octaves to differ from a family's as much
as the classes within do, it would be 1; docs/chain.md has what other numbers lose."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassTime:
    """A kernel on a class; times of one class share their unit.

    `voices`: how much the class weighs, the same in all its times. `operated`: most of them are
    agents of the operator's.
    """

    device_class: DeviceClass
    families: Families
    candidate_id: str
    relative_time: float
    identities: int
    voices: int
    operated: bool


ANY_RHO = ""


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Group:
    """Classes that are aggregated: of one family, with one primitive vector. With `ANY_RHO` it is
    all classes of a target, which are heard and served nothing: some vector is nearest."""

    scope: HitLevel
    family: str
    rho: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CommonKernel:
    """`relative_time`: as expected on one more class, over the fastest known there. `classes` of
    the group itself have measured it."""

    group: Group
    candidate_id: str
    relative_time: float
    classes: int
    identities: int


MeasuredTimes = Mapping[str, list[ClassTime]]
"""By candidate, those that most classes of a group have measured."""
Losses = Mapping[str, float]
"""Octaves by which each candidate is expected to miss the fastest."""
OfClass = list[ClassTime]
ByGroup = Mapping[Group, list[OfClass]]


def common_kernels(
    times: Iterable[ClassTime], *, malicious_share: float, minimum: int
) -> tuple[CommonKernel, ...]:
    """For each group the kernels that most of its voices have measured, the best first.

    `malicious_share`: the largest share of voices that may collude. `minimum`: voices of a group
    without a class of the operator's, before devices are served by it.
    """
    by_group: dict[Group, list[OfClass]] = defaultdict(list)
    for of_class in _over_the_fastest(times):
        families, rho = of_class[0].families, str(of_class[0].device_class.rho)
        for scope, family in families.items():
            by_group[Group(scope=scope, family=family, rho=rho)].append(of_class)
        by_group[_everyone(of_class)].append(of_class)
    measured = {group: _measured(classes) for group, classes in by_group.items()}
    losses = _losses(by_group, measured, malicious_share)
    return tuple(
        kernel
        for group in sorted(by_group)
        if group.rho != ANY_RHO and _is_heard(by_group[group], minimum)
        for kernel in _kernels(group, measured[group], losses[group])
    )


def _over_the_fastest(times: Iterable[ClassTime]) -> Iterator[OfClass]:
    by_class: dict[DeviceClass, OfClass] = defaultdict(list)
    for time in times:
        by_class[time.device_class].append(time)
    for of_class in by_class.values():
        fastest = min(time.relative_time for time in of_class)
        yield [replace(time, relative_time=time.relative_time / fastest) for time in of_class]


def _is_heard(classes: list[OfClass], minimum: int) -> bool:
    """`of_class[0]` stands for its class, whose times all say the same of it."""
    return any(of_class[0].operated for of_class in classes) or _voices(classes) >= minimum


def _voices(classes: list[OfClass]) -> int:
    return sum(of_class[0].voices for of_class in classes)


def _measured(classes: list[OfClass]) -> MeasuredTimes:
    found: dict[str, list[ClassTime]] = defaultdict(list)
    for of_class in classes:
        for time in of_class:
            found[time.candidate_id].append(time)
    most = MOST * _voices(classes)
    return {each: of_it for each, of_it in found.items() if _weight(of_it) >= most}


def _weight(times: list[ClassTime]) -> int:
    return sum(time.voices for time in times)


def _kernels(group: Group, measured: MeasuredTimes, losses: Losses) -> list[CommonKernel]:
    kernels = (
        CommonKernel(
            group=group,
            candidate_id=candidate_id,
            relative_time=2 ** losses[candidate_id],
            classes=len(found),
            identities=sum(time.identities for time in found),
        )
        for candidate_id, found in measured.items()
    )
    return sorted(kernels, key=lambda kernel: (kernel.relative_time, kernel.candidate_id))


def _losses(
    by_group: ByGroup, measured: Mapping[Group, MeasuredTimes], malicious_share: float
) -> Mapping[Group, Losses]:
    """The losses in every group; those that others count on first."""
    losses: dict[Group, Losses] = {}
    for group in sorted(by_group, key=lambda each: len(by_group[each]), reverse=True):
        wider = _wider(group, by_group)
        before = losses[wider] if wider else {}
        losses[group] = {
            candidate_id: _loss(found, before.get(candidate_id), malicious_share)
            for candidate_id, found in measured[group].items()
        }
    return losses


def _loss(found: list[ClassTime], wider: float | None, malicious_share: float) -> float:
    own = trimmed_mean([(log2(time.relative_time), time.voices) for time in found], malicious_share)
    if wider is None:
        return own
    return (len(found) * own + WIDER * wider) / (len(found) + WIDER)


def trimmed_mean(weighted: Iterable[tuple[float, float]], share: float) -> float:
    """The mean of weighted values, without `share` of the weight at each end (below one half)."""
    ordered = sorted(weighted)
    total = sum(weight for _, weight in ordered)
    low, high = share * total, (1 - share) * total
    kept_sum = below = 0.0
    for value, weight in ordered:
        kept_sum += value * max(0.0, min(below + weight, high) - max(below, low))
        below += weight
    return kept_sum / (high - low)


def _wider(group: Group, by_group: ByGroup) -> Group | None:
    """The narrowest of its wider families that holds more classes."""
    own = by_group[group]
    kin = own[0][0].families
    scopes = list(kin)
    after = scopes[scopes.index(group.scope) + 1 :]
    wider = [replace(group, scope=scope, family=kin[scope]) for scope in after]
    wider.append(_everyone(own[0]))
    return next((each for each in wider if len(by_group[each]) > len(own)), None)


def _everyone(of_class: OfClass) -> Group:
    target = of_class[0].device_class.target.kind
    return Group(scope=HitLevel.COMMON, family=target, rho=ANY_RHO)
