"""Measures what a few networks achieve in all classes of a zoo, with and without what stands in it.

    python -m bench.crowd.strangers [--json FILE] [--seed N] [--classes N] [--only ATTACK…]

A device class is a claim, and an identity a page load, so that attackers have as many as they like;
what they have few of are networks. A fifth of the networks of every class are the same five here.
First a siege by several attacks at once of `--classes` with three keys each, 300 in all; then each
attack alone, on few classes, with all defences, and without those that are for it: there it must
succeed.
"""

from argparse import Namespace
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from bench.crowd.simulate import PROMISED, REGRET, WORKLOADS, WRONG, Part, outcomes, part, row
from bench.options import parser, run
from bench.report import Claim, Report, machine
from cli.simulate.run import ScenarioOutcome
from cli.simulate.scenario import FAMILY, Attack, Scenario
from kernelzoo.domain.trust import ALL_DEFENCES, Defence

SIEGE_WORKLOADS = ("matmul:f32:m8k8n8", "matmul:f32:m8k12n8", "matmul:f32:m8k16n8")
"""Keys of 15 candidates each, where the others have 27: a key costs half."""
SIEGE_CLASSES = 100
SIEGE_IDENTITIES = 15
"""Twelve honest networks in each class and three of the attackers', the same in all."""
CLASSES = 4
IDENTITIES = 25
"""Voters of a class; five networks are the attackers', as many as the quorum."""
AMBUSHED_CLASSES, AMBUSHED_IDENTITIES = 10, 20
"""Four networks of twenty, against twenty keys, as on paper (`bench.crowd.ambush`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttackCase:
    """`effect` of the attack: at most `harmless` with all defences, and without those that are
    for it at least `harmful`. Where one defence stands behind another both are left out; none where
    what is for it is no rule that could be. `over_peace`: the effect is over that of the same
    visitors without attackers.
    """

    attack: Attack
    without: frozenset[Defence]
    what: str
    effect: Callable[[ScenarioOutcome], float]
    harmless: float
    harmful: float
    over_peace: bool = False
    classes: int = CLASSES
    identities: int = IDENTITIES
    workloads: tuple[str, ...] = WORKLOADS


def wrong(outcome: ScenarioOutcome) -> float:
    return outcome.verdict.wrongly_promoted


def unseen(outcome: ScenarioOutcome) -> float:
    """Returns what devices lose that nobody measured."""
    assert outcome.unseen is not None
    return outcome.unseen.served_regret


def unseen_over_default(outcome: ScenarioOutcome) -> float:
    """By how much more devices that nobody measured lose than by their default kernel."""
    assert outcome.unseen is not None
    return outcome.unseen.served_regret - outcome.unseen.default_regret


def replaced(outcome: ScenarioOutcome) -> float:
    """By how much more the default that pages have at the end loses than that of the beginning."""
    return outcome.verdict.fallback_regret - outcome.verdict.default_regret


def wronged(outcome: ScenarioOutcome) -> float:
    return outcome.wronged


def withheld(outcome: ScenarioOutcome) -> float:
    """Share of the space that the first honest visitor of a class was not lent."""
    return 1 - outcome.lent


def regret(outcome: ScenarioOutcome) -> float:
    return outcome.verdict.served_regret


CASES = (
    AttackCase(
        attack=Attack.COLD,
        without=frozenset({Defence.MINIMUM}),
        what="wrong promotions by who comes first",
        effect=wrong,
        harmless=WRONG,
        harmful=0.25,
    ),
    AttackCase(
        attack=Attack.MINT,
        without=frozenset({Defence.NETWORKS}),
        what="wrong promotions by five identities of each network",
        effect=wrong,
        harmless=WRONG,
        harmful=0.25,
    ),
    AttackCase(
        attack=Attack.INVENT,
        without=frozenset({Defence.SPEAKERS, Defence.MINIMUM}),
        what="regret of unseen devices, over that without attackers",
        effect=unseen,
        harmless=0.01,
        harmful=0.03,
        over_peace=True,
        classes=2 * FAMILY,
        workloads=SIEGE_WORKLOADS,
    ),
    AttackCase(
        attack=Attack.DENY,
        without=frozenset({Defence.WITNESSES}),
        what="regret of the default kernel that pages have left, over that of before",
        effect=replaced,
        harmless=0.0,
        harmful=0.1,
    ),
    AttackCase(
        attack=Attack.CLAIM,
        without=frozenset({Defence.PEERS}),
        what="honest agents that a check called attackers",
        effect=wronged,
        harmless=0.05,
        harmful=0.1,
    ),
    AttackCase(
        attack=Attack.HOARD,
        without=frozenset({Defence.CREDIT}),
        what="share of the space that is not lent to who comes next",
        effect=withheld,
        harmless=0.25,
        harmful=0.9,
    ),
    AttackCase(
        attack=Attack.BURY,
        without=frozenset(),
        what="regret of what is served where good kernels are called slow",
        effect=regret,
        harmless=REGRET,
        harmful=1.0,
    ),
    AttackCase(
        attack=Attack.AMBUSH,
        without=frozenset(),
        what="regret of what is served where who came first calls the best slow, fails and votes",
        effect=regret,
        harmless=REGRET,
        harmful=1.0,
        classes=AMBUSHED_CLASSES,
        identities=AMBUSHED_IDENTITIES,
    ),
)


def main() -> None:
    options = parser("The same few networks against all classes of a zoo.")
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--classes", type=int, default=SIEGE_CLASSES)
    options.add_argument(
        "--identities", type=int, default=SIEGE_IDENTITIES, help="of each class of the siege"
    )
    options.add_argument("--only", nargs="*", type=Attack, choices=list(Attack))
    run(options, measure, tiny=("--only", "siege", "--classes", "1", "--identities", "5"))


def measure(options: Namespace) -> Report:
    chosen = options.only or [Attack.SIEGE, *(case.attack for case in CASES)]
    found = [
        (each, outcome)
        for each in parts(options.seed, options.classes, options.identities)
        if each.scenarios[0].attack in chosen
        for outcome in outcomes(each)
    ]
    return Report(
        name="strangers",
        machine=machine(seed=options.seed, expected_attackers=PROMISED),
        rows=[row(each.without, outcome) for each, outcome in found],
        claims=[claim for _, outcome in found for claim in _claims(outcome, _peace(found))],
    )


def parts(seed: int, classes: int, identities: int) -> tuple[Part, ...]:
    siege = Scenario(
        attack=Attack.SIEGE,
        malicious_share=PROMISED,
        classes=classes,
        identities=identities,
        workloads=SIEGE_WORKLOADS,
        seed=seed,
    )

    def alone(case: AttackCase, *, peaceful: bool = False) -> Scenario:
        return Scenario(
            attack=case.attack,
            malicious_share=PROMISED,
            classes=case.classes,
            identities=case.identities,
            workloads=case.workloads,
            seed=seed,
            peaceful=peaceful,
        )

    return (
        part("siege", ALL_DEFENCES, siege),
        *(
            part(f"{case.attack}, peaceful", ALL_DEFENCES, alone(case, peaceful=True))
            for case in CASES
            if case.over_peace
        ),
        *(
            part(case.attack, defences, alone(case))
            for case in CASES
            for defences in dict.fromkeys((ALL_DEFENCES, ALL_DEFENCES - case.without))
        ),
    )


Found = list[tuple[Part, ScenarioOutcome]]


def _peace(found: Found) -> dict[Attack, ScenarioOutcome]:
    """Maps each attack to what became of its visitors without it."""
    return {outcome.scenario.attack: outcome for _, outcome in found if outcome.scenario.peaceful}


def _claims(outcome: ScenarioOutcome, peace: Mapping[Attack, ScenarioOutcome]) -> list[Claim]:
    if outcome.scenario.attack is Attack.SIEGE:
        return _promises(outcome)
    case = next(case for case in CASES if case.attack is outcome.scenario.attack)
    if outcome.scenario.peaceful:
        return []
    value = case.effect(outcome)
    if case.over_peace:
        value -= case.effect(peace[case.attack])
    if outcome.defences == ALL_DEFENCES:
        return [Claim.at_most(f"{case.attack}: {case.what}", value, "", case.harmless)]
    out = ", ".join(sorted(case.without))
    return [Claim.at_least(f"{case.attack} without {out}: {case.what}", value, "", case.harmful)]


def _promises(outcome: ScenarioOutcome) -> list[Claim]:
    found, keys = outcome.verdict, f"{outcome.verdict.keys} keys"
    return [
        Claim.at_most(f"siege: wrong promotions, {keys}", found.wrongly_promoted, "", WRONG),
        Claim.at_most(f"siege: regret of what is served, {keys}", found.served_regret, "", REGRET),
        Claim.at_most("siege: keys without any kernel", found.unserved, "", 0.0),
        Claim.at_most(
            "siege: regret of unseen devices over that of their default",
            unseen_over_default(outcome),
            "",
            0.0,
        ),
    ]


if __name__ == "__main__":
    main()
