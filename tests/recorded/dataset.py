"""Real measurements of two machines, as observations (`record` and `away` say how they are made).

The file is JSON: every candidate once, every device with its times in the order of the candidates.
"""

import json
import lzma
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Self

import msgspec

from kernelzoo.domain.candidate import Candidate, Setting
from kernelzoo.domain.device import DeviceClass, Engine, ProbeLevels
from kernelzoo.domain.target import TargetKind
from kernelzoo.domain.workload import Workload
from services.tuner.cost_model.observation import Observation, ProbedDevice

DATASET = Path(__file__).parent / "measurements.json.xz"


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedCandidate:
    workload: str
    config: dict[str, Setting]
    requires: list[str]

    @classmethod
    def of(cls, candidate: Candidate) -> Self:
        return cls(
            workload=candidate.workload.key,
            config=dict(candidate.config),
            requires=list(candidate.requires),
        )

    def to_candidate(self) -> Candidate:
        return Candidate(
            workload=Workload.parse(self.workload),
            kind=TargetKind.WASM,
            config=tuple(sorted(self.config.items())),
            requires=tuple(self.requires),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedDevice:
    """`passes`: of each run by a fresh profile the time of every candidate over that of the
    workload's reference beside it; null where a candidate was not measured.
    """

    name: str
    machine: str
    device_class: str
    engine: Engine
    peak_gflops: float
    probe: ProbeLevels | None
    passes: list[list[float | None]]

    def to_device(self) -> ProbedDevice:
        return ProbedDevice(
            hardware=self.name,
            device_class=DeviceClass.parse(self.device_class),
            engine=self.engine,
            peak_gflops=self.peak_gflops,
            probe=self.probe,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Dataset:
    candidates: list[RecordedCandidate]
    devices: list[RecordedDevice]

    @property
    def fewest_passes(self) -> int:
        """That any device has made."""
        return min(len(each.passes) for each in self.devices)

    def observations(self, part: slice = slice(None)) -> Iterator[Observation]:
        """Medians over `part` of each device's passes, relative to the fastest of their race."""
        candidates = [each.to_candidate() for each in self.candidates]
        for recorded in self.devices:
            device, times = recorded.to_device(), _medians(recorded.passes[part])
            best = self._best(times)
            for candidate, time in zip(candidates, times, strict=True):
                if time is not None:
                    relative = time / best[candidate.workload.key]
                    yield Observation(device=device, candidate=candidate, relative_time=relative)

    def _best(self, times: list[float | None]) -> dict[str, float]:
        best: dict[str, float] = {}
        for candidate, time in zip(self.candidates, times, strict=True):
            if time is not None:
                best[candidate.workload] = min(time, best.get(candidate.workload, time))
        return best


def _medians(passes: list[list[float | None]]) -> list[float | None]:
    found = ([time for time in times if time is not None] for times in zip(*passes, strict=True))
    return [median(times) if times else None for times in found]


def read() -> Dataset:
    return msgspec.json.decode(lzma.decompress(DATASET.read_bytes()), type=Dataset)


def write(dataset: Dataset) -> None:
    text = json.dumps(msgspec.to_builtins(dataset), separators=(",", ":"))
    DATASET.write_bytes(lzma.compress(text.encode(), preset=9))
