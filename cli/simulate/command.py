"""`kernelzoo simulate`: what attackers achieve against the vote, with and without its defences."""

from pathlib import Path
from typing import Annotated

import msgspec
import typer

from cli.figures import ABSENT
from cli.listing import Column, Listing
from cli.options import JsonOption
from cli.simulate.run import ScenarioOutcome, simulated
from cli.simulate.scenario import Attack, Scenario
from cli.stack.place import Place
from cli.stack.signals import interruptible
from cli.stack.supervisor import empty
from cli.terminal import note, out
from kernelzoo.domain.trust import Defence
from services.aggregator.publishing import Rule

WORKLOADS = ("matmul:f32:m16k16n16", "matmul:f32:m16k20n16")
"""Small, so that their outputs cost nothing to compute; what they take is made up anyway."""


def simulate(
    attack: Annotated[list[Attack] | None, typer.Option(help="Default: each in turn.")] = None,
    malicious: Annotated[list[float] | None, typer.Option(help="Shares, as 0.2.")] = None,
    without: Annotated[list[Defence] | None, typer.Option(help="Take a defence out.")] = None,
    classes: Annotated[int, typer.Option(min=1, help="Device classes of each attack.")] = 4,
    identities: Annotated[int, typer.Option(min=5, max=200, help="Voters of each class.")] = 25,
    quorum: Annotated[int, typer.Option(min=1)] = 5,
    assumed: Annotated[
        float, typer.Option(min=0, max=0.45, help="Malicious share expected.")
    ] = 0.2,
    minimum: Annotated[int, typer.Option(min=1, help="Networks that confirm alone.")] = 10,
    seed: Annotated[int, typer.Option(min=0)] = 1,
    as_json: JsonOption = False,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Also write the figures there, as JSON.")
    ] = None,
    state: Annotated[
        Path, typer.Option(help="A directory of the simulation's own; emptied at the start.")
    ] = Path(".kernelzoo/simulation"),
) -> None:
    """Let invented devices vote, some of which lie, through the real gateway and aggregator."""
    rule = Rule(
        quorum=quorum,
        malicious_share=assumed,
        minimum=minimum,
        defences=frozenset(Defence) - frozenset(without or ()),
    )
    scenarios = [
        Scenario(
            attack=each,
            malicious_share=share,
            classes=classes,
            identities=identities,
            workloads=WORKLOADS,
            seed=seed,
        )
        for each in attack or tuple(Attack)
        for share in malicious or (0.2,)
    ]
    if output is not None:
        # Whether it can be written is known before the work of minutes is done.
        output.touch()
    place = Place.at(state)
    empty(place, "simulation")
    outcomes: list[ScenarioOutcome] = []
    with interruptible():
        for outcome in simulated(place, rule, scenarios):
            note(_progress(outcome, len(scenarios), len(outcomes) + 1))
            outcomes.append(outcome)
    figures = msgspec.json.format(msgspec.json.encode(outcomes))
    if output is not None:
        output.write_bytes(figures)
    if as_json:
        print(figures.decode())
        return
    out.print(f"defences: {', '.join(sorted(outcomes[0].defences)) or 'none'}")
    Listing(columns=COLUMNS, rows=tuple(map(_row, outcomes))).show()


def _progress(outcome: ScenarioOutcome, scenarios: int, number: int) -> str:
    rate = outcome.measurements / outcome.elapsed_s
    return (
        f"{number}/{scenarios}: {outcome.scenario.attack}, "
        f"{outcome.scenario.malicious_share:.0%} malicious, "
        f"{outcome.verdict.keys} keys in {outcome.elapsed_s:.0f} s ({rate:.0f} measurements/s)"
    )


COLUMNS = (
    Column(heading="attack"),
    Column(heading="malicious", right=True),
    Column(heading="keys", rank=3, right=True),
    Column(heading="promoted", rank=4, right=True),
    Column(heading="wrongly", right=True),
    Column(heading="regret", right=True),
    Column(heading="of the default", rank=1, right=True),
    Column(heading="unseen", rank=6, right=True),
    Column(heading="lent", rank=7, right=True),
    Column(heading="caught", right=True),
    Column(heading="wronged", right=True),
    Column(heading="cost", rank=2, right=True),
    Column(heading="controls", rank=5, right=True),
)


def _row(outcome: ScenarioOutcome) -> tuple[str, ...]:
    found = outcome.verdict
    return (
        outcome.scenario.attack,
        f"{outcome.scenario.malicious_share:.0%}",
        str(found.keys),
        f"{found.promoted:.0%}",
        f"{found.wrongly_promoted:.1%}",
        f"{found.served_regret:.1%}",
        f"{found.default_regret:.1%}",
        f"{outcome.unseen.served_regret:.1%}" if outcome.unseen else ABSENT,
        f"{outcome.lent:.0%}",
        f"{outcome.caught:.0%}",
        f"{outcome.wronged:.1%}",
        f"{outcome.per_confirmed:.0f}" if outcome.per_confirmed else ABSENT,
        f"{outcome.controls:.0%}",
    )
