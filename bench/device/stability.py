"""Measures how often a device gets the same device id and primitive vector, over fresh visits of
the page.

    python -m bench.device.stability [--visits 20] [--browsers NAME ...] [--busy 1] [--json FILE]

`--busy` keeps that many cores busy with something else, as on a visitor's machine.
"""

import subprocess
import sys
from argparse import Namespace
from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median

from bench.device.visits import Opened, PageVisit, agent_site, in_chromium, in_firefox
from bench.options import parser, run
from bench.report import Cell, Claim, Report, machine

BROWSERS: dict[str, Opened] = {"chromium": in_chromium, "firefox": in_firefox}
EQUAL_OF_20 = 19
READY_MS = 1_500


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """The visits of one browser."""

    browser: str
    visits: Sequence[PageVisit]

    def row(self) -> dict[str, Cell]:
        ready = sorted(visit.ready_ms for visit in self.visits)
        return {
            "browser": self.visits[0].engine,
            "visits": len(self.visits),
            "device id": most_common([visit.device_id for visit in self.visits])[0],
            "same id": most_common([visit.device_id for visit in self.visits])[1],
            "ρ": ", ".join(f"{rho} x{n}" for rho, n in self._rhos()),
            "same id and ρ": self.equal,
            "same levels": most_common([str(visit.session.probe) for visit in self.visits])[1],
            "levels": _levels(self.visits),
            "ready ms": median(ready),
            "ready ms max": ready[-1],
        }

    def claims(self) -> tuple[Claim, ...]:
        wanted = EQUAL_OF_20 * len(self.visits) / 20
        engine = self.visits[0].engine
        return (
            Claim.at_least(f"{engine}: same device id and ρ", self.equal, "visits", wanted),
            Claim.at_most(
                f"{engine}: page request to session request, median",
                median(visit.ready_ms for visit in self.visits),
                "ms",
                READY_MS,
            ),
        )

    @property
    def equal(self) -> int:
        return most_common([(visit.device_id, visit.session.rho) for visit in self.visits])[1]

    def _rhos(self) -> list[tuple[str, int]]:
        return Counter(visit.session.rho for visit in self.visits).most_common()


def most_common(values: Sequence[Hashable]) -> tuple[str, int]:
    """The value seen most often, as text, and how often."""
    ((value, times),) = Counter(values).most_common(1)
    return str(value), times


def _levels(visits: Sequence[PageVisit]) -> str:
    """The middle of each level, in the order of the wire's fields."""
    told = [visit.session.probe.model_dump() for visit in visits if visit.session.probe]
    return " ".join(f"{median(one[name] for one in told):g}" for name in told[0]) if told else ""


@contextmanager
def busy_cores(count: int) -> Iterator[None]:
    command = [sys.executable, "-c", "while True: pass"]
    running = [subprocess.Popen(command) for _ in range(count)]
    try:
        yield
    finally:
        for process in running:
            process.kill()
            process.wait()


def measure(options: Namespace) -> Report:
    with agent_site() as site, busy_cores(options.busy):
        series = [
            Series(browser=name, visits=[site.visit(BROWSERS[name]) for _ in range(options.visits)])
            for name in options.browsers
        ]
    return Report(
        name=f"stability, {options.busy} busy cores",
        machine=machine(),
        rows=[each.row() for each in series],
        claims=[claim for each in series for claim in each.claims()],
    )


if __name__ == "__main__":
    arguments = parser("Equal device ids and primitive vectors over fresh visits.")
    arguments.add_argument("--visits", type=int, default=20)
    arguments.add_argument("--browsers", nargs="+", choices=BROWSERS, default=list(BROWSERS))
    arguments.add_argument("--busy", type=int, default=0, metavar="CORES")
    run(arguments, measure, tiny=("--visits", "1", "--browsers", "chromium"))
