"""Makes what an identity reports, honest or not: pure functions of the truth and a random source.

`Condition` is how one device of a class differs from the others while its owner is there. What
slows a kernel and the reference beside it alike cancels in a relative time.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import exp
from random import Random

from kernelzoo.domain.ballot import RANK_WEIGHTS
from kernelzoo.domain.lease import LEADERS

BUSY = 0.25
"""Share of members with something else to do meanwhile. Assumed; a quarter is many."""
LOADED = 1.0
"""Everything takes so much longer there, as a share, on the average; falling off exponentially. Two
processes on one core take twice as long."""
NOISIER = 2.0
"""Noise of a busy page over that of an idle one (2 % and 1 %, bests of three rounds)."""

FALL = 0.4
"""Most of its clock that a device loses as it warms up; it is anything up to that. Assumed: a core
that loses its turbo, a fifth (services/aggregator/envelope.py), and as much for a phone's case."""
WARM_MIN = 3.0
"""Minutes until it has lost two thirds of that. Assumed."""
UNALIKE = 0.1
"""Share of a kernel's time that does not follow the clock, at most: what waits for memory. The best
kernels read at 93 % of the bandwidth, or compute at 97 % of the limit (bench/results)."""
MEASURING_MIN = 0.05
"""Minutes of a visit that a measurement takes: up to 2 s of timing, and what leads up to it."""

APART = 0.005
"""Deviation of a relative time between two devices of one class, that stays. Ten copies of one
module in one page agree to 3 % between the farthest (bench/results)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """`load`: how many times longer all takes. `fall`: the share of its clock that it loses."""

    member: str
    load: float
    fall: float

    @property
    def noise(self) -> float:
        """Noise in units of an idle device's."""
        return NOISIER if self.load > 1 else 1.0

    def slowdown(self, candidate: str, measured: int) -> float:
        """A kernel's time over that on an idle, cool device, after so many measurements."""
        own = Random(f"{self.member}/{candidate}")
        follows = 1 - UNALIKE * own.random()
        warm = 1 - exp(-measured * MEASURING_MIN / WARM_MIN)
        cycle = 1 / (1 - self.fall * warm)
        return float(self.load * (1 + follows * (cycle - 1)) * exp(own.gauss(0, APART)))


def condition(seed: int, member: str) -> Condition:
    chance = Random(f"{seed}/{member}/condition")
    busy = chance.random() < BUSY
    return Condition(
        member=f"{seed}/{member}",
        load=1 + chance.expovariate(1 / LOADED) if busy else 1.0,
        fall=chance.uniform(0, FALL),
    )


NOISE = 0.02
"""Deviation of one sample's logarithm, above the best; as of three rounds in a busy page."""
FINAL_NOISE = 0.004
"""The best of seven to twenty rounds has so much noise."""
DISTURBED = 0.03
"""Share of measurements that something else on the device makes longer."""
LONGER = 0.5
"""By how much, as a share, on the average; falling off exponentially."""
CLAIM = 0.4
"""Relative time that an attacker claims who boasts, or knows no better."""
BOLDNESS = 0.1
"""Others claim what they push to be so much faster than the best, as a share: more than any noise,
and nothing that a device could not do."""

BURIED = 20.0
"""An attacker says that a good kernel takes so many times longer."""

AMBUSHED = 8
"""Kernels of a space, the best, that attackers want nobody to look at."""
PLAUSIBLY_BURIED = (3.0, 4.0)
"""Between which they say how many times longer such a kernel takes: nothing that is far out."""
SAID_TO_FAIL = 0.05
"""Share of them that an attacker reports as failing instead. With more it buries less: a failure
is no preference, and no time that outweighs an honest one (bench/results/ambush.txt)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """Samples of a candidate and of the reference beside it, in nanoseconds."""

    samples_ns: tuple[float, ...]
    reference_ns: tuple[float, ...]

    @property
    def relative_time(self) -> float:
        return min(self.samples_ns) / min(self.reference_ns)


def honest_timing(
    chance: Random, condition: Condition, call_ns: float, reference_ns: float
) -> Timing:
    load = 1 + chance.expovariate(1 / LONGER) if chance.random() < DISTURBED else 1.0
    noise = NOISE * condition.noise
    return Timing(
        samples_ns=_samples(chance, call_ns * load, noise),
        reference_ns=_samples(chance, reference_ns, noise),
    )


def claimed_timing(chance: Random, relative: float, reference_ns: float) -> Timing:
    return Timing(
        samples_ns=_samples(chance, relative * reference_ns, NOISE),
        reference_ns=_samples(chance, reference_ns, NOISE),
    )


def ambush_claims(
    chance: Random, relative: Mapping[str, float], said_to_fail: float = SAID_TO_FAIL
) -> dict[str, float | None]:
    """Draws what an attacker of AMBUSH says of the best of the kernels that truly take `relative`;
    None where it says that one fails."""
    return {
        name: None if chance.random() < said_to_fail else chance.uniform(*PLAUSIBLY_BURIED) * time
        for name, time in fastest(relative, AMBUSHED)
    }


def measured_again(
    chance: Random,
    condition: Condition,
    relative: Mapping[str, float],
    times: Mapping[str, float],
    named: Sequence[str] = (),
) -> dict[str, float]:
    """Measures with care those `named` and the fastest of `relative`, as first measured, by their
    true `times`."""
    noise = FINAL_NOISE * condition.noise
    compared = compared_in_turn(relative, named)
    return {name: times[name] * exp(abs(chance.gauss(0, noise))) for name in compared}


def compared_in_turn(relative: Mapping[str, float], named: Sequence[str]) -> tuple[str, ...]:
    """Names what an agent compares in its last rounds, of all that it has measured."""
    known = (name for name in named if name in relative)
    own = (name for name, _ in fastest(relative, LEADERS))
    return tuple(dict.fromkeys((*known, *own)))[:LEADERS]


def fastest(
    relative: Mapping[str, float], limit: int = len(RANK_WEIGHTS)
) -> tuple[tuple[str, float], ...]:
    return tuple(sorted(relative.items(), key=lambda line: line[1])[:limit])


def _samples(chance: Random, best_ns: float, noise: float) -> tuple[float, ...]:
    return tuple(best_ns * exp(abs(chance.gauss(0, noise))) for _ in range(3))
