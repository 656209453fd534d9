"""The fastest kernels of a model's workloads here, as a zoo would know them after its agents.

Each workload's lite space is screened in a page by the agent's own code. What was found is kept in
a file, by the workload's key, so that models share it.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from bench.browser import bench_browser
from bench.kernels.contest import Space, screened_times
from bench.report import CannotMeasure
from bench.site import Site
from bench.workloads import Case, Limit
from kernelzoo.domain.candidate import Candidate
from kernelzoo.domain.target import TargetKind
from kernelzoo.domain.workload import Workload
from services.tuner.schedules.registry import lite_space

LIKELY = 24
"""Candidates of a workload that are screened; the best of a whole space is little faster."""

WORTH_TUNING_FLOPS = 1_000_000
"""Kernels of fewer operations keep the default: a thousandth of a network's time at most."""


def default(workload: Workload) -> Candidate:
    """What devices get of which nothing is known: the first that needs no more than simd128."""
    space = lite_space(workload, TargetKind.WASM)
    return next(each for each in space if "relaxed-simd" not in each.requires)


@dataclass(frozen=True, slots=True, kw_only=True)
class Choices:
    """Candidates by the keys of their workloads; where there is none, the default."""

    file: Path

    def __call__(self, workload: Workload) -> Candidate:
        found = self._known().get(workload.key)
        space = lite_space(workload, TargetKind.WASM)
        chosen = (each for each in space if each.candidate_id == found)
        return next(chosen, default(workload))

    def tune(self, site: Site, workloads: Iterable[Workload]) -> None:
        """Screens the spaces of those that are not known yet, each in a page of its own."""
        for workload in sorted(workloads, key=lambda each: -each.flops):
            if workload.key in self._known() or workload.flops < WORTH_TUNING_FLOPS:
                continue
            case = Case(name=workload.key, workload=workload, speedup=0, limit=Limit.NONE)
            try:
                with bench_browser(site.url) as browser:
                    times = screened_times(browser, Space.of(case, site, most=LIKELY))
            except CannotMeasure as error:
                # Products with a whole vocabulary take longer than an agent allows.
                print(f"{workload.key}: the likely best, as {error}", flush=True)
                likely = lite_space(workload, TargetKind.WASM)[0]
                self._keep(workload.key, likely.candidate_id)
                continue
            best = min(times, key=times.__getitem__)
            self._keep(workload.key, best)
            print(f"{workload.key}: {times[best]:.2f} of the default's time", flush=True)

    def _known(self) -> dict[str, str]:
        if not self.file.exists():
            return {}
        known: dict[str, str] = json.loads(self.file.read_text())
        return known

    def _keep(self, key: str, candidate_id: str) -> None:
        kept = self._known() | {key: candidate_id}
        self.file.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n")
