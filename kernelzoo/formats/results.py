"""Values that are exported to other tuners and read from their files."""

from collections.abc import Iterable
from dataclasses import dataclass

from kernelzoo.domain.candidate import Setting
from kernelzoo.domain.measurement import Outcome
from kernelzoo.domain.target import TargetKind
from kernelzoo.domain.workload import WorkloadKey

Config = tuple[tuple[str, Setting], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class File:
    """`name` is what the peer looks for."""

    name: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CandidateTrial:
    """One candidate on one device class. `times_ns`: the best sample of each identity; empty for a
    failure. `measured_at` is ISO 8601.
    """

    config: Config
    requires: tuple[str, ...]
    outcome: Outcome
    times_ns: tuple[float, ...]
    compile_ns: int
    measured_at: str

    @property
    def median_ns(self) -> float:
        """The median over the identities; infinite for a failure."""
        ordered = sorted(self.times_ns)
        if not ordered:
            return float("inf")
        middle = len(ordered) // 2
        return ordered[middle] if len(ordered) % 2 else sum(ordered[middle - 1 : middle + 1]) / 2


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassResults:
    """Every candidate of a workload that a device class has measured."""

    workload_key: WorkloadKey
    device_class: str
    trials: tuple[CandidateTrial, ...]

    def by_settings(self) -> tuple["ClassResults", ...]:
        """One for each kind of config: the formats of others know one list of parameters a file."""
        kinds: dict[tuple[str, ...], list[CandidateTrial]] = {}
        for trial in self.trials:
            kinds.setdefault(tuple(name for name, _ in trial.config), []).append(trial)
        return tuple(
            ClassResults(
                workload_key=self.workload_key,
                device_class=self.device_class,
                trials=tuple(trials),
            )
            for trials in kinds.values()
        )

    @property
    def parameters(self) -> tuple[str, ...]:
        """The settings of the first trial, which are those of all after `by_settings`."""
        return tuple(name for name, _ in self.trials[0].config)


@dataclass(frozen=True, slots=True, kw_only=True)
class TunerClaim:
    """A file of another tuner says that this config took `time` there, in units of its own.

    `workload_key` and `device` are '' where the file does not say.
    """

    workload_key: str
    device: str
    config: Config
    time: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRow:
    """The winner for a workload on a vendor's devices: a GPU's vendor, else a CPU architecture."""

    workload_key: str
    vendor: str
    target: TargetKind
    requires: tuple[str, ...]
    config: Config
    artifact: str
    ballots: int
    relative_time: float


def fastest(claims: Iterable[TunerClaim], most: int) -> tuple[TunerClaim, ...]:
    """At most `most` for each workload and device, the fastest first: the rest is of no use."""
    places: dict[tuple[str, str], list[TunerClaim]] = {}
    for claim in claims:
        places.setdefault((claim.workload_key, claim.device), []).append(claim)
    return tuple(
        claim
        for place in places.values()
        for claim in sorted(place, key=lambda claim: claim.time)[:most]
    )
