"""Measures how close to the best of its space five agents of an operator end.

    python -m bench.crowd.finals [--json FILE] [--keys 40] [--seeds 1 2 3]

On paper (`fixtures.paper_stack`): spaces are those of recorded devices, a kernel's true time the
median of its passes. A first measurement differs from it as two recorded passes by fresh profiles
differ, which is the noise of a page, of its kernels' places in memory and of the machine; what
agents compare in turn differs as invented devices do. Each seed draws other
spaces.
"""

from argparse import Namespace
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import exp, log, sqrt
from random import Random
from statistics import fmean, median

from bench.options import parser, run
from bench.report import Cell, Claim, Report, machine
from cli.simulate.conduct import APART
from fixtures.paper_stack import PaperStack
from fixtures.recorded.dataset import Dataset, RecordedDevice, read
from services.aggregator.publishing import Rule

AGENTS = 5
FEWEST = 20
"""Kernels of a space: what has fewer is hardly a choice."""
KEYS = 40
SEEDS = (1, 2, 3)
NEAR = 0.01
"""A served kernel should be as close to the best."""
SHARES = (0.0, 0.2)
WITHIN = 0.95
BEFORE = {0.0: 53.4, 0.2: 97.3}
"""Measurements of a key by the same seeds, by share, before what agents compare in turn decided: by
the parent of commit 71bf9051 (docs/adr/0097)."""
MORE_WORK = 1.3
AS_RECORDED = ("chromium", "firefox", "webkit")
"""Devices whose passes say what noise is: one browser at a time, with nothing taken away."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Space:
    """`times`: of every kernel over the first of them, which is the default."""

    device: str
    workload: str
    times: Mapping[str, float]


def main() -> None:
    options = parser("What five agents of an operator end with, on paper.")
    options.add_argument("--keys", type=int, default=KEYS)
    options.add_argument("--seeds", type=int, nargs="+", default=list(SEEDS))
    run(options, measure, tiny=("--keys", "2", "--seeds", "1"))


def measure(options: Namespace) -> Report:
    recorded = read()
    first_time = noise(recorded)
    drawn = {
        seed: Random(seed).sample(list(spaces(recorded)), options.keys) for seed in options.seeds
    }
    rows = [
        {"seed": seed, **_row(keys, share, apart, first_time)}
        for share in SHARES
        for apart in (APART, 2 * APART)
        for seed, keys in drawn.items()
    ]
    return Report(
        name="finals",
        machine=machine(keys=options.keys, agents=AGENTS),
        rows=rows,
        claims=[claim for share in SHARES for claim in _claims(rows, share)],
    )


def tuned(
    keys: Sequence[Space], share: float, apart: float, first_time: Callable[[Random], float]
) -> list[PaperStack]:
    """Tunes each space to the end, in a zoo that expects this share of attackers."""
    stacks = [
        PaperStack(
            seed=seed,
            true=space.times,
            agents=AGENTS,
            rule=Rule(quorum=AGENTS, malicious_share=share, minimum=10),
            first_time=first_time,
            apart=apart,
        )
        for seed, space in enumerate(keys)
    ]
    for stack in stacks:
        stack.run()
    return stacks


def _row(
    keys: Sequence[Space], share: float, apart: float, first_time: Callable[[Random], float]
) -> dict[str, Cell]:
    stacks = tuned(keys, share, apart, first_time)
    regrets = [stack.regret for stack in stacks]
    return {
        "malicious_share": share,
        "apart": apart,
        "keys": len(stacks),
        "within": fmean(regret <= NEAR for regret in regrets),
        "of measured": fmean(stack.regret_of_measured <= NEAR for stack in stacks),
        "regret": fmean(regrets),
        "worst": max(regrets),
        "over the default at worst": max(stack.true[stack.served] for stack in stacks),
        "final": fmean(stack.evidence is not None and stack.evidence.final for stack in stacks),
        "measurements": fmean(sum(map(len, stack.measured.values())) for stack in stacks),
        "samples": fmean(stack.samples for stack in stacks),
    }


def _claims(rows: Sequence[Mapping[str, Cell]], share: float) -> Iterator[Claim]:
    """Over the keys of all seeds, of which each has as many."""
    found = [row for row in rows if row["malicious_share"] == share and row["apart"] == APART]
    of = f"malicious share {share}, {len(found)} seeds"
    within = fmean(float(row["within"] or 0) for row in found)
    yield Claim.at_least(f"within 1 % of the best, {of}", within, "", WITHIN)
    worst = max(float(row["over the default at worst"] or 0) for row in found)
    yield Claim.at_most(f"slowest over the default, {of}", worst, "×", 1 + NEAR)
    work = fmean(float(row["measurements"] or 0) for row in found) / BEFORE[share]
    yield Claim.at_most(f"measurements over those of before, {of}", work, "×", MORE_WORK)


def spaces(recorded: Dataset) -> Iterator[Space]:
    """Yields those in which a device measured enough kernels in all of its passes."""
    for device in recorded.devices:
        for workload, times in _by_workload(recorded, device).items():
            if len(times) >= FEWEST:
                middle = {f"k{n:02}": median(each) for n, each in enumerate(times)}
                yield Space(
                    device=device.name,
                    workload=workload,
                    times={name: each / middle["k00"] for name, each in middle.items()},
                )


def noise(recorded: Dataset) -> Callable[[Random], float]:
    """Draws what one pass found of a kernel over its true time. Two passes differ by what is noise
    in both, so that one has the square root of half of it; what all kernels of a race have in
    common is their reference's, and cancels.
    """
    found = list(_differences(recorded))
    return lambda chance: exp(chance.choice(found) / sqrt(2))


def _differences(recorded: Dataset) -> Iterator[float]:
    for device in recorded.devices:
        if device.name not in AS_RECORDED:
            continue
        for times in _by_workload(recorded, device).values():
            for one, other in combinations(range(len(times[0])), 2):
                apart = [log(each[one] / each[other]) for each in times]
                yield from (each - median(apart) for each in apart)


def _by_workload(recorded: Dataset, device: RecordedDevice) -> Mapping[str, list[list[float]]]:
    """Times of each kernel by pass, of those that all passes measured."""
    found: dict[str, list[list[float]]] = defaultdict(list)
    for candidate, told in zip(recorded.candidates, zip(*device.passes, strict=True), strict=True):
        times = [time for time in told if time is not None]
        if len(times) == len(device.passes):
            found[candidate.workload].append(times)
    return found


if __name__ == "__main__":
    main()
