"""Hidden controls: kernels whose time a class knows, lent among those whose time is wanted.

Only relative times are judged, beside the reference of the same lease: a slow or busy device keeps
them. Who does not measure cannot tell a control from the rest, nor what it takes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from services.aggregator.networks import capped

FASTER = 0.2
"""How much less than the class says a relative time may be. Nothing that happens to a device makes
a kernel faster than the reference that runs in turn with it: both bests of three rounds differ by
1 % where the page is idle, 2 % where it is busy, and devices of a class by what `AGREEING` allows.
"""

SLOWER = 1.0
"""How much more. What else a device does makes 3 of 100 measurements longer, by half on average,
in the model of `kernelzoo.cli.simulate.conduct`: twice as long are 0.4 of 100. A lie in this
direction gains nothing that a disturbance would not, so that this bound may be generous."""

KNOWN_BY = 3
"""Other networks that make a kernel's time known."""

AGREEING = 0.8
"""Share of those that must be within `FASTER` of their median. A fifth of liars make up a known
time of three or more in 1 of 120 kernels at most; devices that differ know no time together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerTime:
    """Another identity's best relative time of a control; `network` is '' for the operator's."""

    network: str
    relative_time: float


def known_time(times: Sequence[PeerTime]) -> float | None:
    """The relative time that the class agrees on; None where too few or too different are known."""
    told = [each.relative_time for each in capped(times, of_each=1)]
    if len(told) < KNOWN_BY:
        return None
    usual = median(told)
    agreeing = sum(abs(time / usual - 1) <= FASTER for time in told)
    return usual if agreeing >= max(KNOWN_BY, AGREEING * len(told)) else None


def off(relative_time: float, known: float) -> bool:
    """Whether no honest device of the class says this of a control."""
    return not known * (1 - FASTER) <= relative_time <= known * (1 + SLOWER)


def consistent(told: float, measured: float) -> bool:
    """Whether a ballot's time may come from the same kernel as the measurement before it.

    A ballot is measured again, with care: what was disturbed the first time is faster now.
    """
    return measured / (1 + SLOWER) <= told <= measured * (1 + FASTER)
