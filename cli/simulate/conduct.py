"""What an identity reports, honest or not: pure functions of the truth and a random source."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import exp
from random import Random

from cli.simulate.condition import Condition
from kernelzoo.domain.ballot import RANK_WEIGHTS
from kernelzoo.domain.lease import LEADERS

NOISE = 0.02
"""Deviation of one sample's logarithm, above the best; as of three rounds in a busy page."""
FINAL_NOISE = 0.004
"""The same of the best of seven to twenty rounds."""
DISTURBED = 0.03
"""Share of measurements that something else on the device makes longer."""
LONGER = 0.5
"""By how much, as a share, on the average; falling off exponentially."""
CLAIM = 0.4
"""Relative time that a liar claims who boasts, or knows no better."""
BOLDNESS = 0.1
"""How much faster than the best, as a share, others claim what they push to be: more than any
noise, and nothing that a device could not do."""

BURIED = 20.0
"""How many times longer a liar says that a good kernel takes."""


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


def measured_again(
    chance: Random,
    condition: Condition,
    relative: Mapping[str, float],
    times: Mapping[str, float],
) -> dict[str, float]:
    """The fastest of `relative`, as first measured, by their true `times`, measured with care."""
    noise = FINAL_NOISE * condition.noise
    return {
        name: times[name] * exp(abs(chance.gauss(0, noise)))
        for name, _ in fastest(relative, LEADERS)
    }


def fastest(
    relative: Mapping[str, float], limit: int = len(RANK_WEIGHTS)
) -> tuple[tuple[str, float], ...]:
    return tuple(sorted(relative.items(), key=lambda line: line[1])[:limit])


def _samples(chance: Random, best_ns: float, noise: float) -> tuple[float, ...]:
    return tuple(best_ns * exp(abs(chance.gauss(0, noise))) for _ in range(3))
