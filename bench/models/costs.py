"""Measures what kernels of a network cost a page before they are warm, and which cost least for few
runs.

Several pages measure as so many agents would, by the agent's own code and with weights as cold as
in a network; the zoo's own rule says what is offered (`services.aggregator.by_runs`). What was
measured is kept in a file: by the processor, by the workload's key, by the page, by the candidate.
"""

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

from bench.browser import bench_browser
from bench.kernels.contest import ContestSpace
from bench.kernels.page_lease import lease
from bench.models.tuning import Choices
from bench.report import CannotMeasure, cpu_model
from bench.site import BenchSite
from bench.workloads import BenchCase, Limit
from fixtures.model_site import OfferedKernel
from kernelzoo.domain.candidate import Candidate
from kernelzoo.domain.few_runs import CLOSE, RUNS
from kernelzoo.domain.measurement import Preparation
from kernelzoo.domain.target import TargetKind
from kernelzoo.domain.workload import Workload
from services.aggregator.by_runs import Cost, offers
from services.aggregator.publishing import Rule
from services.tuner.schedules.registry import lite_space

COSTS = "costs.json"
"""This file has what was measured of a network, in its folder."""
VOTERS = 3
RULE = Rule(quorum=VOTERS, malicious_share=0.0)
TRIES = 3
DISTURBED = 1.5
LEADERS = 3
"""So many of the least total for each number of runs are measured by all voters, as the gateway
lends them; the first voter measures all."""

Told = dict[str, dict[str, float]]
"""Nanoseconds by candidate; none of one that does not run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """`choices`: the fastest kernels, which the zoo's entries are."""

    file: Path
    choices: Choices

    def measure(self, site: BenchSite, workloads: Iterable[Workload]) -> None:
        """Measures what was not measured before. Workloads of which nothing was screened have one
        kernel."""
        for workload in workloads:
            close = self.choices.close(workload, CLOSE)
            if len(close) < 2:
                continue
            for number in [*range(VOTERS)] * TRIES:
                voters = self._told(workload)
                among = close if number == 0 else _leaders(voters[0], self.choices(workload), close)
                fresh = [each for each in among if each.candidate_id not in voters[number]]
                if fresh:
                    voters[number] |= _measured(site, workload, fresh)
                    self._keep(workload.key, voters)
            print(f"{workload.key}: costs of {len(voters[0])} kernels are known", flush=True)

    def offered(self, workload: Workload) -> tuple[OfferedKernel, ...]:
        """Kernels for few runs, and the entry's own last; none where too little is known."""
        voters = [{each: _cost(ns) for each, ns in told.items()} for told in self._told(workload)]
        space = {each.candidate_id: each for each in lite_space(workload, TargetKind.WASM)}
        return tuple(
            OfferedKernel(
                candidate=space[offer.candidate_id],
                runs=offer.runs,
                costs=asdict(offer.cost.preparation) | {"run_ns": offer.cost.run_ns},
                identities=offer.voters,
            )
            for offer in offers(voters, self.choices(workload).candidate_id, RULE)
        )

    def _told(self, workload: Workload) -> list[Told]:
        known = self._all().get(cpu_model(), {}).get(workload.key) or [{} for _ in range(VOTERS)]
        close = self.choices.close(workload, CLOSE)
        times = {each.candidate_id: time for each, time in close.items()}
        return [_undisturbed(told, times) for told in known]

    def _all(self) -> dict[str, dict[str, list[Told]]]:
        if not self.file.exists():
            return {}
        kept: dict[str, dict[str, list[Told]]] = json.loads(self.file.read_text())
        return kept

    def _keep(self, key: str, voters: list[Told]) -> None:
        kept = self._all()
        kept[cpu_model()] = kept.get(cpu_model(), {}) | {key: voters}
        written = self.file.with_suffix(".new")
        written.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n")
        written.replace(self.file)


def _undisturbed(told: Told, times: Mapping[str, float]) -> Told:
    """Without kernels that were far slower than when they were screened: where a machine has no
    core to spare, an engine's optimised code may come too late for its samples."""
    slower = {name: ns["run_ns"] / times[name] for name, ns in told.items() if name in times}
    usual = median(slower.values()) if slower else 0.0
    return {name: told[name] for name, each in slower.items() if each <= DISTURBED * usual}


def _cost(ns: Mapping[str, float]) -> Cost:
    preparation = {name: each for name, each in ns.items() if name != "run_ns"}
    return Cost(preparation=Preparation(**preparation), run_ns=ns["run_ns"])


def _leaders(told: Told, served: Candidate, close: Collection[Candidate]) -> tuple[Candidate, ...]:
    """The entry, and what costs least as far as the first voter knows."""
    known = {each: _cost(told[each.candidate_id]) for each in close if each.candidate_id in told}
    found = {served: None} if served in known else {}
    for runs in RUNS:
        ranked = sorted(known, key=lambda each: known[each].total_ns(runs))
        found |= dict.fromkeys(ranked[:LEADERS])
    return tuple(found)


def _measured(site: BenchSite, workload: Workload, candidates: Collection[Candidate]) -> Told:
    case = BenchCase(name=workload.key, workload=workload, speedup=0, limit=Limit.NONE)
    wanted = {each.candidate_id for each in candidates}
    try:
        with bench_browser(site.url) as browser, browser.page() as page:
            space = ContestSpace.of(case, site, among=candidates)
            asked = [made for name, made in space.compiled.items() if name in wanted]
            told = page.costs(lease(case, space.reference, tuple(asked)))
    except CannotMeasure as error:
        print(f"{workload.key}: {error}", flush=True)
        return {}
    return {each.candidate: dict(each.costs) for each in told if each.costs is not None}
