"""Measures what attackers achieve against the real services, over their share, with and without
defences.

    python -m bench.crowd.simulate [--json FILE] [--seed N] [--only PART]

Invented devices vote (`kernelzoo simulate`). Most keys are of the attack that a promise was
made on, with a fifth of the identities colluding; the other cells show where it turns. Attacks by
the same few networks on all classes are in `bench.crowd.strangers`.
"""

from argparse import Namespace
from collections.abc import Iterator
from dataclasses import dataclass
from math import comb
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.options import parser, run
from bench.report import Cell, Claim, Report, machine
from cli.simulate.run import ScenarioOutcome, simulated
from cli.simulate.scenario import Attack, Scenario
from cli.stack.place import Place
from cli.terminal import note
from kernelzoo.domain.trust import ALL_DEFENCES, Defence
from services.aggregator.publishing import Rule

PROMISED = 0.2
WRONG = 0.01
REGRET = 0.03
QUORUM = 5
IDENTITIES = 20
WORKLOADS = ("matmul:f32:m16k16n16", "matmul:f32:m16k20n16")
"""Small, so that their outputs cost nothing to compute; what they take is made up anyway."""
PROMISED_CLASSES = 150
CLASSES = 15
SHARES = (0.05, 0.1, 0.3, 0.4, 0.45)
CONFIDENCE = 0.05

MINIMUM = 10
AGAINST = {
    Defence.NETWORKS: Attack.SYBIL,
    Defence.ENVELOPE: Attack.BOAST,
    Defence.CONTROLS: Attack.RANDOM,
    Defence.REPLAYS: Attack.COPY,
    Defence.QUARANTINE: Attack.BOAST,
    Defence.PROOF: Attack.REPLAY,
}
"""The attack that a defence is for; the challenge is for all. Behind it the others are hard to see,
so that each is left out beside it, too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Scenarios under one rule, which is one stack. `without`: as the table calls what is out."""

    name: str
    without: str
    defences: frozenset[Defence]
    scenarios: tuple[Scenario, ...]


def main() -> None:
    options = parser("Attackers against the vote, over their share and with what stands in it.")
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--classes", type=int, default=PROMISED_CLASSES)
    options.add_argument("--identities", type=int, default=IDENTITIES)
    options.add_argument("--only", nargs="*", choices=[part.name for part in parts(1, 1, 1)])
    small = ("--only", "promised", "--classes", "1", "--identities", str(QUORUM))
    run(options, measure, tiny=small)


def measure(options: Namespace) -> Report:
    chosen = [
        part
        for part in parts(options.seed, options.classes, options.identities)
        if not options.only or part.name in options.only
    ]
    found = [(part, outcome) for part in chosen for outcome in outcomes(part)]
    return Report(
        name="simulate",
        machine=machine(
            seed=options.seed, identities=options.identities, expected_attackers=PROMISED
        ),
        rows=[row(part.without, outcome) for part, outcome in found],
        claims=[
            claim
            for part, outcome in found
            for claim in _claims(outcome)
            if part.name in ("promised", "none")
        ],
    )


def parts(seed: int, classes: int, identities: int) -> tuple[Part, ...]:
    def of(attack: Attack, malicious_share: float, classes: int) -> Scenario:
        return Scenario(
            attack=attack,
            malicious_share=malicious_share,
            classes=classes,
            identities=identities,
            workloads=WORKLOADS,
            seed=seed,
        )

    each_class = (of(attack, PROMISED, CLASSES) for attack in Attack)
    fifth = {each.attack: each for each in each_class if not each.tactics.everywhere}
    collude = fifth[Attack.COLLUDE]
    others = (scenario for attack, scenario in fifth.items() if attack is not Attack.COLLUDE)
    unchallenged = ALL_DEFENCES - {Defence.CHALLENGE}
    met = dict.fromkeys(fifth[attack] for attack in AGAINST.values())
    return (
        part("promised", ALL_DEFENCES, of(Attack.COLLUDE, PROMISED, classes)),
        part("none", frozenset(), collude),
        part("shares", ALL_DEFENCES, *(of(Attack.COLLUDE, each, CLASSES) for each in SHARES)),
        part("attacks", ALL_DEFENCES, *others),
        part("challenge", unchallenged, collude, *met),
        *(part(name, ALL_DEFENCES - {name}, fifth[attack]) for name, attack in AGAINST.items()),
        *(
            part(f"challenge and {name}", unchallenged - {name}, fifth[attack])
            for name, attack in AGAINST.items()
        ),
        part("denials", ALL_DEFENCES - {Defence.DENIALS}, collude),
    )


def part(name: str, defences: frozenset[Defence], *scenarios: Scenario) -> Part:
    out = sorted(ALL_DEFENCES - defences)
    without = "all" if not defences else ", ".join(out) or "–"
    return Part(name=name, without=without, defences=defences, scenarios=scenarios)


def outcomes(part: Part) -> Iterator[ScenarioOutcome]:
    rule = Rule(quorum=QUORUM, malicious_share=PROMISED, minimum=MINIMUM, defences=part.defences)
    with TemporaryDirectory(prefix="kernelzoo-simulate-") as directory:
        for outcome in simulated(Place.at(Path(directory)), rule, part.scenarios):
            note(f"{part.name}: {outcome}")
            yield outcome


def row(without: str, outcome: ScenarioOutcome) -> dict[str, Cell]:
    found = outcome.verdict
    return {
        "attack": outcome.scenario.attack,
        "malicious_share": outcome.scenario.malicious_share,
        "without": "attackers" if outcome.scenario.peaceful else without,
        "keys": found.keys,
        "confirmed": round(found.confirmed, 3),
        "promoted": round(found.promoted, 3),
        "wrong": round(found.wrongly_promoted * found.keys),
        "wrong at most": round(at_most(round(found.wrongly_promoted * found.keys), found.keys), 3),
        "regret": round(found.served_regret, 4),
        "of the default": round(found.default_regret, 3),
        "unseen": round(outcome.unseen.served_regret, 3) if outcome.unseen else None,
        "unseen default": round(outcome.unseen.default_regret, 3) if outcome.unseen else None,
        "default left": round(found.fallback_regret, 3),
        "unserved": round(found.unserved, 3),
        "lent": round(outcome.lent, 3),
        "caught": round(outcome.caught, 3),
        "wronged": round(outcome.wronged, 4),
        "measured per confirmed": round(outcome.per_confirmed or 0),
        "leases with a control": round(outcome.controls, 3),
        "seconds": round(outcome.elapsed_s),
    }


def at_most(wrong: int, keys: int) -> float:
    """The rate above which so few would be found in one of twenty runs (Clopper and Pearson)."""
    low, high = 0.0, 1.0
    while high - low > 1e-6:
        rate = (low + high) / 2
        low, high = (rate, high) if _probability(wrong, keys, rate) > CONFIDENCE else (low, rate)
    return high


def _probability(wrong: int, keys: int, rate: float) -> float:
    """The probability of so many wrong keys or fewer."""
    return sum(comb(keys, k) * rate**k * (1 - rate) ** (keys - k) for k in range(wrong + 1))


def _claims(outcome: ScenarioOutcome) -> list[Claim]:
    found = outcome.verdict
    keys = f"{found.keys} keys"
    if not outcome.defences:
        what = f"wrong promotions without defences, {keys}"
        return [Claim.at_least(what, found.wrongly_promoted, "of them", 0.05)]
    return [
        Claim.at_most(f"wrong promotions, {keys}", found.wrongly_promoted, "of them", WRONG),
        Claim.at_most(f"regret of what is served, {keys}", found.served_regret, "", REGRET),
    ]


if __name__ == "__main__":
    main()
