"""What the model learns from: how long a candidate took on a device, relative to its like."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from kernelzoo.domain.candidate import Candidate
from kernelzoo.domain.device import DeviceClass, Engine, GpuProbeLevels, ProbeLevels
from kernelzoo.domain.target import TargetKind


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbedDevice:
    """A device class in one engine, with what a page probed of it.

    `hardware` names what is held out together: the device id, whatever browser runs on it. A gap
    in `probe` is unknown; so is a peak of 0.
    """

    hardware: str
    device_class: DeviceClass
    engine: Engine
    peak_gflops: float = 0.0
    probe: ProbeLevels | GpuProbeLevels | None = None

    @property
    def kind(self) -> TargetKind:
        return self.device_class.target.kind


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """`relative_time`: best time over that of a reference which all of a race share."""

    device: ProbedDevice
    candidate: Candidate
    relative_time: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Race:
    """Every candidate of one workload that one device has measured, in the order of promise."""

    device: ProbedDevice
    workload_key: str
    observations: tuple[Observation, ...]


def races(observations: Iterable[Observation]) -> tuple[Race, ...]:
    """Those with at least two candidates: of one alone nothing can be learned."""
    grouped: dict[tuple[ProbedDevice, str], list[Observation]] = defaultdict(list)
    for each in observations:
        grouped[each.device, each.candidate.workload.key].append(each)
    return tuple(
        Race(device=device, workload_key=key, observations=tuple(members))
        for (device, key), members in grouped.items()
        if len(members) > 1
    )
