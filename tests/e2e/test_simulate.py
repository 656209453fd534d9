"""Colluding strangers against the real services, with and without what stands in their way."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from cli.simulate.run import ScenarioOutcome, simulated
from cli.simulate.scenario import Attack, Scenario
from cli.stack.place import Place
from kernelzoo.domain.trust import ALL_DEFENCES, Defence
from services.aggregator.publishing import Rule

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]

COLLUDING = Scenario(
    attack=Attack.COLLUDE,
    malicious_share=0.2,
    classes=3,
    identities=20,
    workloads=("matmul:f32:m16k24n16",),
    seed=7199,
)
"""By this seed three of the first six of each class lie, so that they lead where they can; with
this workload the default is a third or more slower than the best."""


def found(directory: Path, defences: frozenset[Defence]) -> ScenarioOutcome:
    rule = Rule(quorum=5, malicious_share=0.2, defences=defences)
    (outcome,) = simulated(Place.at(directory), rule, [COLLUDING])
    assert outcome.turned_away == 0
    assert outcome.verdict.keys == 3
    assert outcome.wronged < 0.1, "a disturbed device may fail a control, few may"
    return outcome


def test_a_fifth_of_attackers_makes_no_page_slower(tmp_path: Path) -> None:
    outcome = found(tmp_path, ALL_DEFENCES)
    assert outcome.controls > 0
    verdict = outcome.verdict
    assert verdict.wrongly_promoted == 0
    assert verdict.promoted > 0
    assert verdict.served_regret < 0.03 < verdict.default_regret


def first(directory: Path, defences: frozenset[Defence]) -> ScenarioOutcome:
    """Five networks are there before anybody honest, with an identity each."""
    rule = Rule(quorum=5, malicious_share=0.2, minimum=10, defences=defences)
    cold = replace(COLLUDING, attack=Attack.COLD, classes=1, identities=25, seed=1)
    (outcome,) = simulated(Place.at(directory), rule, [cold])
    return outcome


def test_who_comes_first_to_a_class_decides_nothing_on_few_networks(tmp_path: Path) -> None:
    verdict = first(tmp_path, ALL_DEFENCES).verdict
    assert verdict.wrongly_promoted == 0
    assert verdict.served_regret < 0.03 < verdict.default_regret


def test_the_same_attackers_win_a_plain_vote(tmp_path: Path) -> None:
    assert found(tmp_path, frozenset()).verdict.wrongly_promoted > 0


@pytest.mark.timeout(480)
def test_the_command_prints_its_figures_as_json_alone(tmp_path: Path) -> None:
    options = ("--attack", "hoard", "--classes", "1", "--identities", "5", "--json")
    told = subprocess.run(
        [sys.executable, "-m", "cli", "simulate", *options, "--state", str(tmp_path / "of-it")],
        check=True,
        capture_output=True,
        timeout=420,
    )
    (outcome,) = json.loads(told.stdout)
    assert outcome["scenario"]["attack"] == "hoard"
    assert b"1/1: hoard" in told.stderr
