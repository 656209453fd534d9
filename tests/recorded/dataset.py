"""Real measurements of one machine, as observations (see `record` for how they were made).

The file is JSON: every candidate once, every device with its times in the order of the candidates.
"""

import json
import lzma
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

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

    def to_candidate(self) -> Candidate:
        return Candidate(
            workload=Workload.parse(self.workload),
            kind=TargetKind.WASM,
            config=tuple(sorted(self.config.items())),
            requires=tuple(self.requires),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedDevice:
    """`times_ns`: the best of `passes` runs by fresh profiles, each of three samples or more; null
    where a candidate was not measured. On a machine that others load the best is what is true.
    """

    name: str
    device_class: str
    engine: Engine
    peak_gflops: float
    probe: ProbeLevels | None
    passes: int
    times_ns: list[int | None]

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
    machine: str
    candidates: list[RecordedCandidate]
    devices: list[RecordedDevice]

    def observations(self) -> Iterator[Observation]:
        """Relative to the fastest of their race."""
        candidates = [each.to_candidate() for each in self.candidates]
        for recorded in self.devices:
            device, best = recorded.to_device(), self._best_ns(recorded)
            for candidate, time_ns in zip(candidates, recorded.times_ns, strict=True):
                if time_ns is not None:
                    relative = time_ns / best[candidate.workload.key]
                    yield Observation(device=device, candidate=candidate, relative_time=relative)

    def _best_ns(self, device: RecordedDevice) -> dict[str, int]:
        best: dict[str, int] = {}
        for candidate, time_ns in zip(self.candidates, device.times_ns, strict=True):
            if time_ns is not None:
                best[candidate.workload] = min(time_ns, best.get(candidate.workload, time_ns))
        return best


def read() -> Dataset:
    return msgspec.json.decode(lzma.decompress(DATASET.read_bytes()), type=Dataset)


def write(dataset: Dataset) -> None:
    text = json.dumps(msgspec.to_builtins(dataset), separators=(",", ":"))
    DATASET.write_bytes(lzma.compress(text.encode(), preset=9))
