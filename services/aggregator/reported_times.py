"""Judges whether the times that an identity reports were measured: hidden controls, and copied
times.

A control is a kernel whose time a class knows, lent among those whose time is wanted. Only relative
times are judged, beside the reference of the same lease: a slow or busy device keeps them. Who does
not measure cannot tell a control from the rest, nor what it takes.

Times that were copied are equal to the last bit to others, or all alike. A clock has steps, so that
honest times coincide too: agents aim at 1 % of a sample for a step, with noise of about as much.
Only many coincidences at once are evidence.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from services.aggregator.networks import capped

FASTER = 0.2
"""A relative time may be so much less than the class says. Nothing that happens to a device makes a
kernel faster than the reference that runs in turn with it: both bests of three rounds differ by 1 %
where the page is idle, 2 % where it is busy, and devices of a class by what `AGREEING` allows.
"""

SLOWER = 1.0
"""A relative time may be so much more. What else a device does makes 3 of 100 measurements longer,
by half on average, in the model of `cli.simulate.conduct`: twice as long are 0.4 of 100. A lie in
this direction gains nothing that a disturbance would not, so that this bound may be generous."""

KNOWN_BY = 3
"""Other networks that make a kernel's time known."""

AGREEING = 0.8
"""Share of those that must be within `FASTER` of their median. A fifth of attackers make up a known
time of three or more in 1 of 120 kernels at most; devices that differ know no time together."""


CONTRADICTED_BY = 6
"""Networks that agree, before a faster time is a fault: as many as the test of `challenge` wants
against one voice, with a fifth of attackers. Fewer could be attackers who came first, called a good
kernel slow, and would have every honest device that measures it put in quarantine. Of the
operator's agents `KNOWN_BY` are enough."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """A class knows this of a kernel, if `certain` so well that a faster time is a fault."""

    relative_time: float
    certain: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerTime:
    """Another identity's best relative time of a control; `network` is '' for the operator's."""

    network: str
    relative_time: float


def known_time(times: Sequence[PeerTime]) -> Known | None:
    """The relative time that the class agrees on; None where too few or too different are known."""
    told = capped(times)
    if len(told) < KNOWN_BY:
        return None
    usual = median(each.relative_time for each in told)
    agreeing = [each for each in told if abs(each.relative_time / usual - 1) <= FASTER]
    if len(agreeing) < max(KNOWN_BY, AGREEING * len(told)):
        return None
    operated = sum(not each.network for each in agreeing)
    certain = operated >= KNOWN_BY or len(agreeing) >= CONTRADICTED_BY
    return Known(relative_time=usual, certain=certain)


def off(relative_time: float, known: Known) -> bool:
    """Returns whether no honest device of the class says this of a control."""
    if relative_time > known.relative_time * (1 + SLOWER):
        return True
    return known.certain and relative_time < known.relative_time * (1 - FASTER)


def consistent(told: float, measured: float) -> bool:
    """Returns whether a ballot's time may come from the same kernel as the measurement before it.

    A ballot is measured again, with care: what was disturbed the first time is faster now.
    """
    return measured / (1 + SLOWER) <= told <= measured * (1 + FASTER)


Times = tuple[float, ...]

REPLAYED = 24
"""Different numbers that a lease must share with one other. Each of an honest lease falls on the
same step of the clock with a probability of one half at most, since different numbers show that
there are several steps: 2⁻²⁴ for one other lease, 1 in 16,000 for a thousand of them."""

STILL = 24
"""Repetitions within samples that never differ. Two samples fall on one step with 0.7 at most where
a step is 1 % and the noise 0.4 %: all of 24 do in 1 of 5,000 leases."""


def replayed(shared: Sequence[tuple[Times, Times]]) -> bool:
    """`shared`: samples and reference samples of candidates which one other lease has as well."""
    return len({time for pair in shared for times in pair for time in times}) >= REPLAYED


def still(measured: Sequence[tuple[Times, Times]]) -> bool:
    """Returns whether nothing in a whole lease ever varied."""
    vectors = [times for pair in measured for times in pair]
    repeated = sum(len(times) - 1 for times in vectors)
    return repeated >= STILL and all(len(set(times)) == 1 for times in vectors)
