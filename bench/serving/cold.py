"""From an empty zoo to a fast kernel: what one visitor of the agent page waits for.

Every run has a stack and a browser of its own, as on the first day. The workload is registered, and
the page is opened at once, while its candidates are being compiled. Times are from the navigation,
by the page's own clock.
"""

from argparse import Namespace
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median
from typing import Any

import msgspec
from playwright.sync_api import Error, Page

from bench.busy import CpuUsage
from bench.options import parser, run
from bench.page_json import PageJson
from bench.report import CannotMeasure, Cell, Claim, Report, machine
from bench.serving.fresh_stack import fresh_stack
from bench.workloads import PAPER, TINY
from cli.gateway_client import GatewayClient
from cli.stack.supervisor import Stack
from kernelzoo.domain.target import TargetKind
from kernelzoo.domain.workload import Workload
from workers.fleet.chromium import launched_chromium

WORKLOAD = PAPER[0].workload.key
RUNS = 5
SHARE = 0.95
"""Share of the final speed whose time is told."""

SHARE_MS, FIRST_MS = 5_000.0, 1_500.0
TUNED_WITHIN_MS = 120_000

STAMP = """{
  let told = { events: [], state: null };
  const stamped = [];
  globalThis.tuned = new Promise((resolve, reject) => {
    setTimeout(reject, TUNED_WITHIN_MS, new Error("There was no final ballot in time."));
    Object.defineProperty(globalThis, "kernelzooAgent", {
      get: () => told,
      set: (next) => {
        const atMs = performance.now();
        const fresh = next.events.slice(told.events.length);
        told = next;
        stamped.push(...fresh.map((event) => ({ ...event, atMs })));
        if (stamped.at(-1)?.final) resolve(JSON.stringify(stamped));
      },
    });
  });
}""".replace("TUNED_WITHIN_MS", str(TUNED_WITHIN_MS))
"""Notes when the page is told of each event, up to the final ballot. The page's policy forbids
waiting for a condition from outside."""


class Event(PageJson, frozen=True, kw_only=True):
    """Mirrors events of the page; what other events hold is left out."""

    type: str
    at_ms: float
    relative_time: float | None = None
    gflops: float | None = None
    peak_gflops: float | None = None
    first_timed_ms: float | None = None
    final: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ColdTuning:
    """One run, by its events in order; `others_busy` are cores."""

    workload: Workload
    events: Sequence[Event]
    others_busy: float

    @property
    def timed(self) -> list[Event]:
        return [event for event in self.events if event.relative_time is not None]

    @property
    def session_ms(self) -> float:
        return self._first("session").at_ms

    @property
    def first_timed_ms(self) -> float:
        return self._first("firstTimed").first_timed_ms or 0.0

    @property
    def share_ms(self) -> float:
        """Tells when the best so far was within SHARE of the best of all."""
        best = min(event.relative_time or 0.0 for event in self.timed)
        return next(e.at_ms for e in self.timed if best >= SHARE * (e.relative_time or 0.0))

    def row(self) -> dict[str, Cell]:
        rates = [event.gflops or 0.0 for event in self.timed]
        return {
            "workload": self.workload.key,
            "session_ms": self.session_ms,
            "first_timed_ms": self.first_timed_ms,
            "share_ms": self.share_ms,
            "all_timed_ms": self.timed[-1].at_ms,
            "final_ballot_ms": self.events[-1].at_ms,
            "timed": len(self.timed),
            "best_gflops": max(rates),
            "of_peak": max(rates) / (self._first("session").peak_gflops or 1.0),
            "others_busy": self.others_busy,
        }

    def _first(self, kind: str) -> Event:
        return next(event for event in self.events if event.type == kind)


def main() -> None:
    options = parser("Tuning from an empty zoo with one agent, from the opening of its page.")
    options.add_argument("--runs", type=int, default=RUNS)
    options.add_argument("--workload", default=WORKLOAD)
    run(options, measure, tiny=("--runs", "1", "--workload", TINY.workload.key))


def measure(options: Namespace) -> Report:
    workload = Workload.parse(options.workload)
    tunings = [_tuning(workload) for _ in range(options.runs)]
    return Report(
        name="cold",
        machine=machine(runs=options.runs),
        rows=[tuning.row() for tuning in tunings],
        claims=_claims(tunings),
    )


def _claims(tunings: Sequence[ColdTuning]) -> list[Claim]:
    share_ms = median(tuning.share_ms for tuning in tunings)
    first_ms = median(tuning.first_timed_ms for tuning in tunings)
    return [
        Claim.at_most("first candidate timed, median", first_ms, "ms", FIRST_MS),
        Claim.at_most(f"{SHARE:.0%} of the final speed, median", share_ms, "ms", SHARE_MS),
    ]


def _tuning(workload: Workload) -> ColdTuning:
    with fresh_stack() as stack, _blank_page() as page:
        before = CpuUsage.now()
        with GatewayClient(url=stack.url, operator_key=stack.keys.operator) as gateway:
            gateway.register(workload, TargetKind.WASM)
        events = _tuned(page, stack)
        return ColdTuning(
            workload=workload, events=events, others_busy=CpuUsage.now().others_since(before)
        )


def _tuned(page: Page, stack: Stack) -> list[Event]:
    page.add_init_script(STAMP)
    try:
        page.goto(f"{stack.url}/agent?start=1", wait_until="commit")
        told: Any = page.evaluate("globalThis.tuned")
    except Error as error:
        raise CannotMeasure(f"the agent's page did not tune: {error.message[:400]}") from error
    return msgspec.json.decode(told, type=list[Event])


@contextmanager
def _blank_page() -> Iterator[Page]:
    with launched_chromium() as browser:
        yield browser.new_page()


if __name__ == "__main__":
    main()
