"""When a process that died is started again: soon at first, ever later while it keeps dying."""

from dataclasses import dataclass

FIRST_DELAY_S = 0.5
LONGEST_DELAY_S = 30.0
STEADY_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Restart:
    """`deaths` in a row, each after less than `STEADY_S` of life; the next start is `at_s`."""

    deaths: int
    at_s: float


def next_restart(previous: Restart | None, lived_s: float, now_s: float) -> Restart:
    steady = previous is None or lived_s >= STEADY_S
    deaths = 1 if steady or previous is None else previous.deaths + 1
    return Restart(deaths=deaths, at_s=now_s + delay_s(deaths))


def delay_s(deaths: int) -> float:
    return min(LONGEST_DELAY_S, FIRST_DELAY_S * 2.0 ** min(deaths - 1, 16))
