"""Times that were copied, not taken: equal to the last bit to others, or all alike.

A clock has steps, so that honest times coincide too: agents aim at 1 % of a sample for a step, with
noise of about as much. Only many coincidences at once are evidence.
"""

from collections.abc import Sequence

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
    """Whether nothing in a whole lease ever varied."""
    vectors = [times for pair in measured for times in pair]
    repeated = sum(len(times) - 1 for times in vectors)
    return repeated >= STILL and all(len(set(times)) == 1 for times in vectors)
