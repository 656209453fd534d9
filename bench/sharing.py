"""How much sooner n agents of one device class have a winner than one, as they share the space.

Simulated agents ask at once, each with a device of its own; a measurement takes `COST_S`, so that
time is counted in measurements. Browsers of one host take turns when they time, so of them only
what each has measured is told.
"""

import time
from argparse import Namespace
from collections.abc import Sequence
from datetime import UTC, datetime

from bench.fresh_stack import fresh_stack
from bench.options import parser, run
from bench.report import CannotMeasure, Cell, Claim, Report, machine
from bench.workloads import PAPER
from kernelzoo.cli.gateway_client import GatewayClient
from kernelzoo.cli.simulate.crowd import Crowd
from kernelzoo.cli.simulate.run import compile_spaces, environment_of, outcome_of
from kernelzoo.cli.simulate.scenario import Attack, Scenario
from kernelzoo.cli.stack.plan import FleetPlan, plan_fleet
from kernelzoo.cli.stack.supervisor import Stack
from kernelzoo.cli.tune import winners_of
from kernelzoo.domain.lease import cover
from kernelzoo.domain.target import TargetKind
from kernelzoo.domain.workload import Workload
from kernelzoo.store import zoo
from kernelzoo.store.blocking import connected, fetch_all
from services.aggregator.publishing import Rule
from workers.fleet.status import FleetStatus, read_status

SIMULATED = (1, 2, 5, 20)
COST_S = 1.0
QUORUM = 5
STRANGERS = 0.2
WORKLOAD = "matmul:f32:m64k64n64"
"""As large a space as of K0, and outputs that cost nothing."""
IN_BROWSERS = PAPER[0].workload
TUNED_WITHIN_S = 300.0

REACH = {2: 1.6, 5: 2.5, 20: 4.0}
"""Times sooner than one agent. Every voter measures eight leaders, so that not all is shared."""


def main() -> None:
    options = parser("Time to a winner with n agents that share one space.")
    options.add_argument("--agents", type=int, nargs="*", default=SIMULATED)
    options.add_argument("--browsers", type=int, nargs="+", default=(), help="as 1 2 5")
    run(options, measure)


def measure(options: Namespace) -> Report:
    own = [_simulated(agents, 0.0) for agents in options.agents]
    strangers = [_simulated(agents, STRANGERS) for agents in options.agents if agents > QUORUM]
    return Report(
        name="sharing",
        machine=machine(cost_s=COST_S),
        rows=[*own, *strangers, *(_in_browsers(agents) for agents in options.browsers)],
        claims=_claims(own),
    )


def _simulated(agents: int, liars: float) -> dict[str, Cell]:
    """All are honest; `liars` is what the zoo is told to expect."""
    rule = Rule(quorum=min(agents, QUORUM), liars=liars)
    scenario = Scenario(
        attack=Attack.RANDOM,
        liars=0.0,
        classes=1,
        identities=agents,
        workloads=(WORKLOAD,),
        seed=1,
    )
    with fresh_stack(environment_of(rule)) as stack:
        compile_spaces(stack, scenario)
        crowd = Crowd(url=stack.url, scenario=scenario, at_once=agents, cost_s=COST_S)
        began = datetime.now(UTC)
        outcome = outcome_of(stack, rule, crowd)
        with connected(stack.postgres.url) as db:
            (entry,) = fetch_all(db, zoo.entries(WORKLOAD))
    (key,) = crowd.keys.values()
    return {
        "agents": agents,
        "by": "simulation",
        "liars": liars,
        "candidates": len(key.candidate_ids),
        "cover": cover(liars),
        "measured": outcome.measurements,
        "by_each": outcome.measurements / agents,
        "covered_after": _covered_s(crowd, cover(liars)) / COST_S,
        "winner_after": (entry.published_at - began).total_seconds() / COST_S,
        "all_voted_after": crowd.elapsed_s / COST_S,
        "state": entry.state,
        "regret": outcome.verdict.served_regret,
    }


def _covered_s(crowd: Crowd, times: int) -> float:
    """When the last candidate was reported for the `times`-th time."""
    reported: dict[str, list[float]] = {}
    for at_s, candidate in crowd.reports:
        reported.setdefault(candidate, []).append(at_s)
    return max(at_s[times - 1] for at_s in reported.values())


def _in_browsers(agents: int) -> dict[str, Cell]:
    rule = Rule(quorum=min(agents, QUORUM), liars=0.0)
    with (
        fresh_stack(environment_of(rule)) as stack,
        GatewayClient(url=stack.url, operator_key=stack.keys.operator) as gateway,
    ):
        job = gateway.register(IN_BROWSERS, TargetKind.WASM)
        stack.launch(plan_fleet(stack.place, stack.keys, stack.url, FleetPlan.chromium(agents)))
        fleet = _tuned(stack, gateway, IN_BROWSERS, agents)
        job = gateway.job(job.job)
        (winner,) = winners_of(IN_BROWSERS.key, (TargetKind.WASM,), gateway.entries())
    return {
        "agents": agents,
        "by": "browsers",
        "liars": 0.0,
        "candidates": job.candidates,
        "cover": cover(0.0),
        "measured": job.measurements,
        "by_each": max(agent.measured + agent.failed for agent in fleet.agents),
        "covered_after": None,
        "winner_after": None,
        "all_voted_after": None,
        "state": winner.state.value,
        "regret": None,
    }


def _tuned(stack: Stack, gateway: GatewayClient, workload: Workload, agents: int) -> FleetStatus:
    """Once every agent has filed its final ballot and a winner is confirmed."""
    until_s = time.monotonic() + TUNED_WITHIN_S
    while time.monotonic() < until_s:
        stack.tend()
        fleet = read_status(stack.place.fleet)
        if fleet is not None and len(fleet.agents) == agents:
            voted = all(agent.final_ballots > 0 for agent in fleet.agents)
            if voted and winners_of(workload.key, (TargetKind.WASM,), gateway.entries()):
                return fleet
        time.sleep(0.2)
    raise CannotMeasure(f"{agents} browsers had no winner in {TUNED_WITHIN_S:.0f} s")


def _claims(rows: Sequence[dict[str, Cell]]) -> list[Claim]:
    """Of the winner that stands, and not before the whole space is covered: one that is found
    sooner was lucky.
    """
    after = {
        int(row["agents"] or 0): max(
            float(row["winner_after"] or 0), float(row["covered_after"] or 0)
        )
        for row in rows
    }
    return [
        Claim.at_least(f"winner with {agents} agents", after[1] / after[agents], "×", reach)
        for agents, reach in REACH.items()
        if 1 in after and agents in after
    ]


if __name__ == "__main__":
    main()
