"""Figures as people read them. A figure that is not there yet is a dash."""

from math import floor, log10

from services.gateway.wire.jobs import Job
from services.gateway.wire.zoo import ZooEntry

ABSENT = "–"
UNITS = ((1.0, "ms"), (1e3, "µs"), (1e6, "ns"))
"""A millisecond is so many of each unit."""


def number(value: float | None, unit: str = "", digits: int = 1) -> str:
    return ABSENT if value is None else f"{value:.{digits}f}{unit and ' ' + unit}"


def duration(ms: float | None) -> str:
    """Writes three digits, in the unit that suits it: 213 ns, 21.3 µs, 1.23 ms, 1,234 ms."""
    if not ms:
        return number(ms, "ms")
    factor, unit = next((each for each in UNITS if ms * each[0] >= 1), UNITS[-1])
    value = ms * factor
    return f"{value:,.{max(0, 2 - floor(log10(value)))}f} {unit}"


def gflops(flops: int, elapsed_ns: float | None) -> float | None:
    """FLOPs per nanosecond are GFLOP/s."""
    return flops / elapsed_ns if elapsed_ns else None


def progress(job: Job) -> str:
    """One line: compiled, measured, best and votes so far."""
    failed = f" ({job.failed} failed)" if job.failed else ""
    return (
        f"compiled {job.compiled}/{job.candidates}{failed}"
        f", {number(job.compile_ms_median, 'ms')} each"
        f" · measured {job.measurements}, agents {job.agents}"
        f" · best {number(gflops(job.flops, job.best_ns), 'GFLOP/s')}"
        f" · votes {job.ballots}"
    )


def share(entry: ZooEntry) -> str:
    evidence = entry.evidence
    return f"{evidence.weight}/{evidence.total_weight} in {evidence.ballots} ballots"


def standing(entry: ZooEntry) -> str:
    """Its state; of a confirmed one that others contend with, that it may change."""
    return "final" if entry.final else entry.state
