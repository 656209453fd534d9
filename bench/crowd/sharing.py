"""Measures how much sooner n agents of one device class have a winner than one, as they share the
space.

The winner's time is that since which the zoo has served a confirmed kernel within 2 % of the best,
the whole space being measured. Simulated agents are all there before the first is lent anything,
each with a device of its own; a measurement takes them `COST_S`, so that time is counted in
measurements. Browsers of one host take turns when they time, so of them what each had measured by
then is told beside the time.
"""

import time
from argparse import Namespace
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median

from bench.crowd.finish import RaceFinish, finish
from bench.options import parser, run
from bench.report import CannotMeasure, Cell, Claim, Report, machine
from bench.serving.fresh_stack import await_compiled, fresh_stack
from bench.workloads import PAPER
from cli.gateway_client import GatewayClient
from cli.simulate.crowd import Crowd, SimulatedKey
from cli.simulate.run import compile_spaces, environment_of, outcome_of, settle
from cli.simulate.scenario import Attack, Scenario
from cli.simulate.world import World
from cli.stack.plan import FleetPlan, plan_fleet
from cli.stack.supervisor import Stack
from cli.tune import winners_of
from fixtures.sharing import floor
from kernelzoo.domain.device import DeviceClass
from kernelzoo.domain.lease import cover
from kernelzoo.domain.target import TargetKind
from kernelzoo.domain.workload import Workload
from kernelzoo.store import curves, zoo
from kernelzoo.store.blocking import connected, fetch_all
from kernelzoo.store.curves import ReportedTimeRow
from services.aggregator.publishing import Rule
from workers.fleet.status import read_status

SIMULATED = (1, 2, 5, 20)
CLASSES = 2
"""Kinds of devices, each measured by n agents: chance weighs less in their mean."""
COST_S = 4.0
"""Long beside what the services take on a busy machine: to judge a lease and to count a vote."""
QUORUM = 5
STRANGERS = 0.2
WORKLOAD = "matmul:f32:m64k64n64"
"""This has as large a space as K0, and outputs that cost nothing."""
IN_BROWSERS = PAPER[0].workload
TUNED_WITHIN_S = 300.0

REACH = {2: 1.7, 5: 3.5, 20: 9.0}
"""Times sooner than one agent. At 20, two rounds of exploring and one of voting are the floor."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SharingCase:
    """`malicious_share`: the share that the zoo is told to expect; all are honest."""

    agents: int
    malicious_share: float

    @property
    def rule(self) -> Rule:
        return Rule(quorum=min(self.agents, QUORUM), malicious_share=self.malicious_share)


def main() -> None:
    options = parser("Time to a winner with n agents that share one space.")
    options.add_argument("--agents", type=int, nargs="*", default=SIMULATED)
    options.add_argument("--browsers", type=int, nargs="+", default=(), help="as 1 2 5")
    options.add_argument("--cost-s", type=float, default=COST_S, help="of a simulated measurement")
    run(options, measure, tiny=("--agents", "1", "--cost-s", "0.02"))


def measure(options: Namespace) -> Report:
    own = [SharingCase(agents=agents, malicious_share=0.0) for agents in options.agents]
    strangers = [
        SharingCase(agents=n, malicious_share=STRANGERS) for n in options.agents if n >= QUORUM
    ]
    rows = [_simulated(case, options.cost_s) for case in (*own, *strangers)]
    return Report(
        name="sharing",
        machine=machine(cost_s=options.cost_s, classes=CLASSES),
        rows=[
            *rows,
            *(_in_browsers(SharingCase(agents=n, malicious_share=0.0)) for n in options.browsers),
        ],
        claims=_claims(rows[: len(own)]),
    )


def _simulated(case: SharingCase, cost_s: float) -> dict[str, Cell]:
    scenario = Scenario(
        attack=Attack.RANDOM,
        malicious_share=0.0,
        classes=CLASSES,
        identities=case.agents,
        workloads=(WORKLOAD,),
        seed=1,
    )
    with fresh_stack(environment_of(case.rule)) as stack:
        compile_spaces(stack, scenario)
        crowd = Crowd(
            url=stack.url,
            scenario=scenario,
            at_once=CLASSES * case.agents,
            cost_s=cost_s,
            together=True,
        )
        outcome = outcome_of(stack, case.rule, crowd)
        ends = [
            _finish(stack, case, DeviceClass.parse(key.device_class), _slowdowns(scenario, key))
            for key in crowd.keys.values()
        ]
    space = max(len(key.candidate_ids) for key in crowd.keys.values())
    return _row(case, "simulation", space, outcome.measurements / CLASSES, ends, cost_s)


def _row(
    case: SharingCase,
    by: str,
    space: int,
    measured: float,
    ends: Sequence[RaceFinish],
    unit_s: float,
) -> dict[str, Cell]:
    """Means over `ends`; times in units of `unit_s`."""
    won = [end.won_s for end in ends if end.won_s is not None]
    return {
        "agents": case.agents,
        "by": by,
        "malicious_share": case.malicious_share,
        "keys": len(ends),
        "won": len(won),
        "candidates": space,
        "covered_after": fmean(end.covered_s for end in ends) / unit_s,
        "winner_after": fmean(won) / unit_s if won else None,
        "by_each": fmean(end.by_each for end in ends),
        "floor": floor(space, cover(case.malicious_share), case.agents, case.rule.quorum),
        "measured": measured,
        "versions": fmean(end.versions for end in ends),
        "regret": fmean(end.regret for end in ends),
    }


def _slowdowns(scenario: Scenario, key: SimulatedKey) -> dict[str, float]:
    """The truth."""
    world = World(seed=scenario.seed, flops=Workload.parse(key.workload).flops)
    times = {name: world.call_ns(key.device, name) for name in key.candidate_ids}
    return {name: time_ns / min(times.values()) - 1 for name, time_ns in times.items()}


def _reported(stack: Stack, device_class: DeviceClass) -> list[ReportedTimeRow]:
    """Reads what was reported for the only job that there is."""
    with connected(stack.postgres.url) as db:
        return fetch_all(db, curves.reported(1, device_class))


def _finish(
    stack: Stack,
    case: SharingCase,
    device_class: DeviceClass,
    slowdowns: Mapping[str, float],
) -> RaceFinish:
    reported = _reported(stack, device_class)
    with connected(stack.postgres.url) as db:
        versions = fetch_all(db, zoo.versions(device_class))
    return finish(reported, versions, slowdowns, cover=cover(case.malicious_share))


def _in_browsers(case: SharingCase) -> dict[str, Cell]:
    """Nobody knows the truth here: the medians of all that was measured stand for it."""
    with (
        fresh_stack(environment_of(case.rule)) as stack,
        GatewayClient(url=stack.url, operator_key=stack.keys.operator) as gateway,
    ):
        job = await_compiled(gateway, gateway.register(IN_BROWSERS, TargetKind.WASM))
        fleet = FleetPlan.chromium(case.agents)
        stack.launch(plan_fleet(stack.place, stack.keys, stack.url, fleet))
        device_class = _tuned(stack, gateway, case.agents)
        settle(stack)
        reported = _reported(stack, DeviceClass.parse(device_class))
        end = _finish(stack, case, DeviceClass.parse(device_class), _medians(reported))
    return _row(case, "browsers", job.candidates, len(reported), [end], 1.0)


def _medians(reported: Iterable[ReportedTimeRow]) -> dict[str, float]:
    """Over the fastest, as shares."""
    times: dict[str, list[float]] = {}
    for row in reported:
        if row.relative_time is not None:
            times.setdefault(row.candidate_id, []).append(row.relative_time)
    medians = {name: median(found) for name, found in times.items()}
    return {name: found / min(medians.values()) - 1 for name, found in medians.items()}


def _tuned(stack: Stack, gateway: GatewayClient, agents: int) -> str:
    """Once every agent has filed its final ballot and a winner is confirmed; its class."""
    until_s = time.monotonic() + TUNED_WITHIN_S
    while time.monotonic() < until_s:
        stack.tend()
        fleet = read_status(stack.place.fleet)
        if fleet is not None and len(fleet.agents) == agents:
            voted = all(agent.final_ballots > 0 for agent in fleet.agents)
            found = winners_of(IN_BROWSERS.key, (TargetKind.WASM,), gateway.entries())
            if voted and found:
                return found[0].device_class
        time.sleep(0.2)
    raise CannotMeasure(f"{agents} browsers had no winner in {TUNED_WITHIN_S:.0f} s")


def _claims(rows: Sequence[Mapping[str, Cell]]) -> list[Claim]:
    after = {int(row["agents"] or 0): float(row["winner_after"] or 0) for row in rows}
    return [
        Claim.at_least(f"winner with {agents} agents", after[1] / after[agents], "×", reach)
        for agents, reach in REACH.items()
        if after.get(1) and after.get(agents)
    ]


if __name__ == "__main__":
    main()
