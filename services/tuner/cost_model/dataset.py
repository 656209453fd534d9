"""Makes what the model is trained and judged on: relative times of candidates, grouped into races.

A race is all candidates of one workload that one device has measured; learning to rank calls it a
query group. Some devices and shapes are held out, so that a model is judged on what it has never
seen. A hash chooses them, so that the choice is the same on every day and machine. It may change as
more devices come, so a model remembers what it was trained on and is never judged on that.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha256

from kernelzoo.domain.candidate import Candidate
from kernelzoo.domain.device import DeviceClass, Engine, GpuProbeLevels, ProbeLevels
from kernelzoo.domain.target import TargetKind


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbedDevice:
    """A device class in one engine, with what a page probed of it.

    `hardware` is what is held out as one: the device id, whatever browser runs on it. What `probe`
    lacks is unknown; so is a peak of 0.
    """

    hardware: str
    device_class: DeviceClass
    engine: Engine
    peak_gflops: float = 0.0
    probe: ProbeLevels | GpuProbeLevels | None = None

    @property
    def target(self) -> TargetKind:
        return self.device_class.target.kind


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """`relative_time`: the best time over that of a reference that all of a race share."""

    device: ProbedDevice
    candidate: Candidate
    relative_time: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Race:
    """The measured candidates of one workload on one device, in the order of the lite space, which
    puts first what its heuristics promise most of."""

    device: ProbedDevice
    workload_key: str
    observations: tuple[Observation, ...]


def races(observations: Iterable[Observation]) -> tuple[Race, ...]:
    """Groups observations. A race of one candidate says nothing of an order and is left out."""
    grouped: dict[tuple[ProbedDevice, str], list[Observation]] = defaultdict(list)
    for each in observations:
        grouped[each.device, each.candidate.workload.key].append(each)
    return tuple(
        Race(device=device, workload_key=key, observations=tuple(members))
        for (device, key), members in grouped.items()
        if len(members) > 1
    )


ONE_IN = 5
"""One device in five is held out, and one shape in five."""

FEWEST = 3
"""None is held out of fewer devices or shapes: too few would be left to train on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """`devices`: races of trained shapes on held-out devices. `shapes`: the other way round.

    Races of held-out shapes on held-out devices are left out, so that each score has one cause.
    """

    training: tuple[Race, ...]
    devices: tuple[Race, ...]
    shapes: tuple[Race, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """Fingerprints of the devices and shapes that a model was trained on."""

    devices: frozenset[str] = frozenset()
    shapes: frozenset[str] = frozenset()

    @classmethod
    def of(cls, races: Iterable[Race]) -> "Seen":
        """The devices and shapes of the races."""
        known = tuple(races)
        return cls(
            devices=frozenset(fingerprint(race.device.hardware) for race in known),
            shapes=frozenset(fingerprint(race.workload_key) for race in known),
        )

    def without_devices(self, races: tuple[Race, ...]) -> tuple[Race, ...]:
        """Races on devices that were not seen."""
        return tuple(
            race for race in races if fingerprint(race.device.hardware) not in self.devices
        )

    def without_shapes(self, races: tuple[Race, ...]) -> tuple[Race, ...]:
        """Races of shapes that were not seen."""
        return tuple(race for race in races if fingerprint(race.workload_key) not in self.shapes)


def fingerprint(name: str) -> str:
    """12 hex digits of SHA-256."""
    return sha256(name.encode()).hexdigest()[:12]


def split(races: tuple[Race, ...]) -> Split:
    """Holds out one device in five and one shape in five."""
    hardware = _held_out({race.device.hardware for race in races})
    workloads = _held_out({race.workload_key for race in races})
    sides: dict[tuple[bool, bool], list[Race]] = {}
    for race in races:
        side = race.device.hardware in hardware, race.workload_key in workloads
        sides.setdefault(side, []).append(race)
    return Split(
        training=tuple(sides.get((False, False), ())),
        devices=tuple(sides.get((True, False), ())),
        shapes=tuple(sides.get((False, True), ())),
    )


def on_targets(parts: Split, *targets: TargetKind) -> Split:
    """Keeps the races of a split that are on these targets."""

    def chosen(side: tuple[Race, ...]) -> tuple[Race, ...]:
        return tuple(race for race in side if race.device.target in targets)

    return Split(
        training=chosen(parts.training),
        devices=chosen(parts.devices),
        shapes=chosen(parts.shapes),
    )


def _held_out(names: set[str]) -> set[str]:
    if len(names) < FEWEST:
        return set()
    return set(sorted(names, key=fingerprint)[: -(-len(names) // ONE_IN)])
