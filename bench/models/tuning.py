"""The fastest kernels of a model's workloads here, as a zoo would know them after its agents.

Each workload's lite space is screened in a page by the agent's own code, with weights as cold as in
a network. What was found is kept in a file, so that models share it and a run that is broken off
goes on: by the processor, by the workload's key, by the candidate, its time over the default's.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from bench.browser import bench_browser
from bench.kernels.contest import ContestSpace, screened_times
from bench.report import CannotMeasure, cpu_model
from bench.site import BenchSite
from bench.workloads import BenchCase, Limit
from fixtures.wasm_space import common_space
from kernelzoo.domain.candidate import Candidate
from kernelzoo.domain.target import TargetKind
from kernelzoo.domain.workload import Workload
from services.tuner.schedules.registry import lite_space

FMA = "relaxed-simd"
FINALISTS = 6
"""So many of the fastest are screened twice, as one that was disturbed looks slower than it is."""

WORTH_TUNING_FLOPS = 250_000
"""Kernels of fewer operations keep the default: a thousandth of a network's time at most."""

Times = dict[str, dict[str, float | None]]
"""By workload and candidate; None for one that does not run."""


def default(workload: Workload) -> Candidate:
    """Returns what any browser can run: the first that needs no more than simd128."""
    space = lite_space(workload, TargetKind.WASM)
    return next(each for each in space if FMA not in each.requires)


def served_default(workload: Workload) -> Candidate:
    """Returns what the zoo serves a browser with relaxed SIMD of which it knows nothing else."""
    return common_space(workload)[0]


def contenders(workload: Workload) -> tuple[Candidate, ...]:
    """Candidates that may be the fastest on a device that fuses products and sums."""
    space = common_space(workload)
    return tuple(each for each in space if FMA in each.requires) or space


@dataclass(frozen=True, slots=True, kw_only=True)
class Choices:
    """Candidates by the keys of their workloads: what the zoo serves at first where nothing was
    screened, the likely best where no candidate was done in its time."""

    file: Path

    def __call__(self, workload: Workload) -> Candidate:
        known = self._times().get(workload.key)
        if known is None:
            return served_default(workload)
        times = dict(_timed(known))
        space = lite_space(workload, TargetKind.WASM)
        timed = [each for each in space if each.candidate_id in times]
        likely = contenders(workload)[0]
        return min(timed, key=lambda each: times[each.candidate_id], default=likely)

    def close(self, workload: Workload, factor: float) -> dict[Candidate, float]:
        """Returns what was screened and takes at most `factor` times as long as the fastest, with
        its time over the default's."""
        times = dict(_timed(self._times().get(workload.key, {})))
        most = factor * min(times.values(), default=0.0)
        space = lite_space(workload, TargetKind.WASM)
        known = ((each, times.get(each.candidate_id)) for each in space)
        return {each: time for each, time in known if time is not None and time <= most}

    def tune(self, site: BenchSite, workloads: Iterable[Workload]) -> None:
        """Screens what was not screened before, each workload in a page of its own."""
        for workload in sorted(workloads, key=lambda each: -each.flops):
            if workload.flops < WORTH_TUNING_FLOPS:
                continue
            known = self._times().get(workload.key, {})
            fresh = [each for each in contenders(workload) if each.candidate_id not in known]
            if not fresh:
                continue
            times = known | _screened(site, workload, fresh)
            final = sorted(_timed(times), key=lambda each: each[1])[:FINALISTS]
            again = [each for each in fresh if each.candidate_id in dict(final)]
            for each, time in _timed(_screened(site, workload, again)):
                times[each] = min(time, times[each] or time)
            self._keep(workload.key, times)
            best = min((time for _, time in _timed(times)), default=1.0)
            print(f"{workload.key}: {best:.2f} of the default's time", flush=True)

    def _times(self) -> Times:
        return self._all().get(cpu_model(), {})

    def _all(self) -> dict[str, Times]:
        if not self.file.exists():
            return {}
        kept: dict[str, Times] = json.loads(self.file.read_text())
        return kept

    def _keep(self, key: str, times: dict[str, float | None]) -> None:
        kept = self._all() | {cpu_model(): self._times() | {key: times}}
        written = self.file.with_suffix(".new")
        written.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n")
        written.replace(self.file)


def _timed(times: dict[str, float | None]) -> Iterator[tuple[str, float]]:
    return ((each, time) for each, time in times.items() if time is not None)


def _screened(
    site: BenchSite, workload: Workload, candidates: list[Candidate]
) -> dict[str, float | None]:
    """The time of each candidate; all None where not even the default runs."""
    case = BenchCase(name=workload.key, workload=workload, speedup=0, limit=Limit.NONE)
    try:
        with bench_browser(site.url) as browser:
            space = ContestSpace.of(case, site, among=candidates)
            found = screened_times(browser, space, hot=False)
    except CannotMeasure as error:
        print(f"{workload.key}: {error}", flush=True)
        found = {}
    return {each.candidate_id: found.get(each.candidate_id) for each in candidates}
