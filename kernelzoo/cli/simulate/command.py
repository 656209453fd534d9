"""`kernelzoo simulate`: what attackers achieve against the vote, with and without its defences."""

from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.table import Table

from kernelzoo.cli.simulate.run import Outcome, simulated
from kernelzoo.cli.simulate.scenario import Attack, Scenario
from kernelzoo.cli.stack.place import Place
from kernelzoo.cli.stack.scratch import empty
from kernelzoo.cli.stack.signals import interruptible
from kernelzoo.cli.terminal import note, out
from kernelzoo.domain.trust import Defence
from services.aggregator.publishing import Rule

WORKLOADS = ("matmul:f32:m16k16n16", "matmul:f32:m16k20n16")
"""Small, so that their outputs cost nothing to compute; what they take is made up anyway."""


def simulate(
    attack: Annotated[list[Attack] | None, typer.Option(help="Default: each in turn.")] = None,
    liars: Annotated[list[float] | None, typer.Option(help="Shares, as 0.2.")] = None,
    without: Annotated[list[Defence] | None, typer.Option(help="Take a defence out.")] = None,
    classes: Annotated[int, typer.Option(min=1, help="Device classes of each attack.")] = 4,
    identities: Annotated[int, typer.Option(min=5, max=200, help="Voters of each class.")] = 25,
    quorum: Annotated[int, typer.Option(min=1)] = 5,
    assumed: Annotated[float, typer.Option(min=0, max=0.45, help="Liars the zoo expects.")] = 0.2,
    seed: Annotated[int, typer.Option(min=0)] = 1,
    json: Annotated[Path | None, typer.Option(help="Also write the figures there.")] = None,
    state: Annotated[
        Path, typer.Option(help="A directory of the simulation's own; emptied at the start.")
    ] = Path(".kernelzoo/simulation"),
) -> None:
    """Let invented devices vote, some of which lie, through the real gateway and aggregator."""
    rule = Rule(
        quorum=quorum, liars=assumed, defences=frozenset(Defence) - frozenset(without or ())
    )
    scenarios = [
        Scenario(
            attack=each,
            liars=share,
            classes=classes,
            identities=identities,
            workloads=WORKLOADS,
            seed=seed,
        )
        for each in attack or tuple(Attack)
        for share in liars or (0.2,)
    ]
    place = Place.at(state)
    empty(place, "simulation")
    outcomes: list[Outcome] = []
    with interruptible():
        for outcome in simulated(place, rule, scenarios):
            note(_progress(outcome, len(scenarios), len(outcomes) + 1))
            outcomes.append(outcome)
    out.print(_table(outcomes))
    if json is not None:
        json.write_bytes(msgspec.json.format(msgspec.json.encode(outcomes)))


def _progress(outcome: Outcome, scenarios: int, number: int) -> str:
    rate = outcome.measurements / outcome.elapsed_s
    return (
        f"{number}/{scenarios}: {outcome.scenario.attack}, {outcome.scenario.liars:.0%} liars, "
        f"{outcome.verdict.keys} keys in {outcome.elapsed_s:.0f} s ({rate:.0f} measurements/s)"
    )


def _table(outcomes: list[Outcome]) -> Table:
    table = Table(title=f"defences: {', '.join(sorted(outcomes[0].defences)) or 'none'}")
    for column in (
        "attack",
        "liars",
        "keys",
        "promoted",
        "wrongly",
        "regret",
        "of the default",
        "caught",
        "wronged",
        "cost",
        "controls",
    ):
        table.add_column(column, justify="left" if column == "attack" else "right")
    for outcome in outcomes:
        found = outcome.verdict
        table.add_row(
            outcome.scenario.attack,
            f"{outcome.scenario.liars:.0%}",
            str(found.keys),
            f"{found.promoted:.0%}",
            f"{found.wrongly_promoted:.1%}",
            f"{found.served_regret:.1%}",
            f"{found.default_regret:.1%}",
            f"{outcome.caught:.0%}",
            f"{outcome.wronged:.1%}",
            f"{outcome.per_confirmed:.0f}" if outcome.per_confirmed else "–",
            f"{outcome.controls:.0%}",
        )
    return table
