"""Finds kernels that cost a page less than the entry's own where it runs them few times.

The vote says which kernel is the fastest once it is warm. Before that a page compiles it, packs its
weights and runs it in unoptimised code; of a kernel that is called once this may be most of the
time (NNV12, section 3.1.1). Whoever votes tells these costs, too:

    total(n) = compile + pack + first run + (n - 1) runs

Another kernel is offered for n runs where it takes the test of a challenger: of those who measured
both, as many as `services.aggregator.challenge` asks for must find its total smaller. What is
offered was measured with right outputs by each of them, and is at most `CLOSE` times slower than
the entry once it is warm. The entry stays what the vote says: it is for all that run it more often.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from kernelzoo.domain.few_runs import CLOSE, RUNS, SAVING
from kernelzoo.domain.measurement import Preparation
from services.aggregator.challenge import Preferences, passes
from services.aggregator.publishing import Rule


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """A kernel costs this, as one voter measured it, or by the medians of several."""

    preparation: Preparation
    run_ns: float

    @property
    def prepare_ns(self) -> float:
        """A page pays this beside warm runs."""
        told = self.preparation
        return told.compile_ns + told.pack_ns + max(0.0, told.first_run_ns - self.run_ns)

    def total_ns(self, runs: int) -> float:
        return self.prepare_ns + runs * self.run_ns


Costs = Mapping[str, Cost]
"""One voter measured these, by candidate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """A kernel that is the best for up to `runs` runs; None for the entry's own, for all more.
    `voters` told its cost.
    """

    candidate_id: str
    runs: int | None
    cost: Cost
    voters: int


def offers(voters: Sequence[Costs], served_id: str, rule: Rule) -> tuple[Offer, ...]:
    """The entry's own is the last; none where fewer than a quorum have told its costs."""
    knowing = [told for told in voters if served_id in told]
    if len(knowing) < rule.quorum:
        return ()
    costs = {served_id: median_cost([told[served_id] for told in knowing])}
    for candidate_id in sorted({each for told in knowing for each in told} - {served_id}):
        both = [told for told in knowing if candidate_id in told]
        ratio = median(told[candidate_id].run_ns / told[served_id].run_ns for told in both)
        if len(both) >= rule.quorum and ratio <= CLOSE:
            costs[candidate_id] = median_cost([told[candidate_id] for told in both])
    costs = unbeaten(costs, served_id)
    chosen: dict[str, int | None] = {}
    for runs in RUNS:
        best = _best(knowing, costs, served_id, runs, rule)
        if best == served_id:
            break
        chosen[best] = runs
    return tuple(
        Offer(
            candidate_id=candidate_id,
            runs=runs,
            cost=costs[candidate_id],
            voters=sum(candidate_id in told for told in knowing),
        )
        for candidate_id, runs in (chosen | {served_id: None}).items()
    )


def unbeaten(costs: Costs, served_id: str) -> dict[str, Cost]:
    """The entry's own, and others that none beats in both preparation and runs."""
    return {
        candidate_id: cost
        for candidate_id, cost in costs.items()
        if candidate_id == served_id
        or not any(
            other.prepare_ns < cost.prepare_ns and other.run_ns < cost.run_ns
            for other in costs.values()
        )
    }


def median_cost(told: Sequence[Cost]) -> Cost:
    return Cost(
        preparation=Preparation(
            compile_ns=median(each.preparation.compile_ns for each in told),
            optimise_ns=median(each.preparation.optimise_ns for each in told),
            pack_ns=median(each.preparation.pack_ns for each in told),
            first_run_ns=median(each.preparation.first_run_ns for each in told),
        ),
        run_ns=median(each.run_ns for each in told),
    )


def _best(voters: Sequence[Costs], costs: Costs, served_id: str, runs: int, rule: Rule) -> str:
    """The one of the least total among those that pass the test; else the entry."""
    passing = (each for each in costs if _passes(voters, each, served_id, runs, rule))
    return min(passing, key=lambda each: (costs[each].total_ns(runs), each), default=served_id)


def _passes(
    voters: Sequence[Costs], candidate_id: str, served_id: str, runs: int, rule: Rule
) -> bool:
    told = [
        each[candidate_id].total_ns(runs) < (1 - SAVING) * each[served_id].total_ns(runs)
        for each in voters
        if candidate_id in each
    ]
    found = Preferences(challenger=sum(told), champion=len(told) - sum(told))
    return passes(found, rule.malicious_share, least=rule.quorum // 2 + 1)
