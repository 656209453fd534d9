"""Which devices and shapes a model never sees, so that it can be judged on them.

By a hash, so that the choice is the same on every day and machine. As a crowd grows the choice may
move; a model therefore remembers what it has seen, and is never judged on that.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha256

from kernelzoo.domain.target import TargetKind
from services.tuner.cost_model.observation import Race

ONE_IN = 5
FEWEST = 3
"""With fewer devices, or shapes, none is held out: the rest would teach too little."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """`devices` are races of known shapes on devices held out, `shapes` the other way round. Races
    that are both are left out, so that each figure has one cause.
    """

    training: tuple[Race, ...]
    devices: tuple[Race, ...]
    shapes: tuple[Race, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """Marks of the devices and shapes that a model was trained on."""

    devices: frozenset[str] = frozenset()
    shapes: frozenset[str] = frozenset()

    @classmethod
    def of(cls, races: Iterable[Race]) -> "Seen":
        """Of all that the races are about."""
        known = tuple(races)
        return cls(
            devices=frozenset(mark(race.device.hardware) for race in known),
            shapes=frozenset(mark(race.workload_key) for race in known),
        )

    def without_devices(self, races: tuple[Race, ...]) -> tuple[Race, ...]:
        """Those of devices that were not seen."""
        return tuple(race for race in races if mark(race.device.hardware) not in self.devices)

    def without_shapes(self, races: tuple[Race, ...]) -> tuple[Race, ...]:
        """Those of shapes that were not seen."""
        return tuple(race for race in races if mark(race.workload_key) not in self.shapes)


def mark(name: str) -> str:
    """12 hex digits."""
    return sha256(name.encode()).hexdigest()[:12]


def split(races: tuple[Race, ...]) -> Split:
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


def of_kind(parts: Split, *kinds: TargetKind) -> Split:
    """The same choice, of races on these targets alone."""

    def chosen(side: tuple[Race, ...]) -> tuple[Race, ...]:
        return tuple(race for race in side if race.device.kind in kinds)

    return Split(
        training=chosen(parts.training),
        devices=chosen(parts.devices),
        shapes=chosen(parts.shapes),
    )


def _held_out(names: set[str]) -> set[str]:
    if len(names) < FEWEST:
        return set()
    return set(sorted(names, key=mark)[: -(-len(names) // ONE_IN)])
