"""Finds what attackers bury who come first, each measure the whole space, and call the best slow.

    python -m bench.crowd.ambush [--json FILE] [--seeds 20]

On paper (`fixtures.paper_crowd`): the gateway's plans and the aggregator's rule are the real ones,
devices and attackers those of `kernelzoo simulate --attack ambush`, which runs the services, too.
Each seed is another space on another device with other visitors.
"""

from argparse import Namespace
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from statistics import fmean

from bench.crowd.simulate import IDENTITIES, MINIMUM, PROMISED, QUORUM, REGRET
from bench.options import parser, run
from bench.report import Cell, Claim, Report, machine
from cli.simulate.world import World
from fixtures.paper_crowd import PaperCrowd
from services.aggregator.publishing import Rule

SEEDS = 20
SPACE = 27
"""Kernels, as of the workloads of `bench.crowd.simulate`."""
FLOPS = 2 * 16**3


@dataclass(frozen=True, slots=True, kw_only=True)
class AmbushCase:
    """`attackers` of `IDENTITIES`; the others are honest, `at_once` of them at a time."""

    attackers: int
    at_once: int
    said_to_fail: float


ATTACKERS = round(PROMISED * IDENTITIES)
ALL_AT_ONCE = IDENTITIES - ATTACKERS
CASES = (
    AmbushCase(attackers=0, at_once=ALL_AT_ONCE, said_to_fail=0),
    *(
        AmbushCase(attackers=ATTACKERS, at_once=at_once, said_to_fail=said_to_fail)
        for at_once in (1, ALL_AT_ONCE)
        for said_to_fail in (0.0, 0.1, 0.5)
    ),
)


def main() -> None:
    options = parser("Attackers who come first and bury the best kernels, on paper.")
    options.add_argument("--seeds", type=int, default=SEEDS)
    run(options, measure, tiny=("--seeds", "1"))


def measure(options: Namespace) -> Report:
    rows = [row(case, options.seeds) for case in CASES]
    return Report(
        name="ambush",
        machine=machine(seeds=options.seeds, identities=IDENTITIES, expected_attackers=PROMISED),
        rows=rows,
        claims=[claim for each in rows for claim in _claims(each)],
    )


def ambushed(case: AmbushCase, seed: int) -> PaperCrowd:
    """A crowd that has voted."""
    world = World(seed=seed, flops=FLOPS)
    calls = {f"k{n:02}": world.call_ns("device", f"k{n:02}") for n in range(SPACE)}
    crowd = PaperCrowd(
        seed=seed,
        true={name: call / calls["k00"] for name, call in calls.items()},
        attackers=case.attackers,
        honest=IDENTITIES - case.attackers,
        rule=Rule(quorum=QUORUM, malicious_share=PROMISED, minimum=MINIMUM),
        at_once=case.at_once,
        said_to_fail=case.said_to_fail,
    )
    crowd.run()
    return crowd


def row(case: AmbushCase, seeds: int) -> dict[str, Cell]:
    crowds = [ambushed(case, seed) for seed in range(1, seeds + 1)]
    regrets = [crowd.regret for crowd in crowds]
    honest = [one for crowd in crowds for one in crowd.came[case.attackers :]]
    return {
        "attackers": case.attackers,
        "honest at once": case.at_once,
        "said to fail": case.said_to_fail,
        "keys": seeds,
        "regret": round(fmean(regrets), 4),
        "worst": round(max(regrets), 3),
        "above 3 %": sum(regret > REGRET for regret in regrets),
        "of the default": round(fmean(1 / min(crowd.true.values()) - 1 for crowd in crowds), 3),
        "measured by each": round(fmean(len(one.told) for one in honest), 1),
        "wronged": round(fmean(one.record.failed for one in honest), 4),
    }


def _claims(found: Mapping[str, Cell]) -> Iterator[Claim]:
    if found["attackers"]:
        what = f"regret, {found['honest at once']} at once, {found['said to fail']} said to fail"
        yield Claim.at_most(what, float(found["regret"] or 0), "", REGRET)


if __name__ == "__main__":
    main()
