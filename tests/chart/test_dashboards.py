"""Dashboards against the types that Grafana publishes of their JSON."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from dashboards.generate import generated
from tests.chart.complaints import SCHEMAS, dashboard_complaints

ROOT = Path(__file__).parents[2]

# A piece of each complaint about `_mistaken`.
MISTAKES = ("'\"refesh\"'", "'\"colourMode\"'", "'\"units\"'", "Type '\"lists\"'", "Type 'number'")


def _mistaken(dashboard: dict[str, Any]) -> dict[str, Any]:
    """Makes a mistake of each kind: of the dashboard, of a panel, of its options and its fields."""
    wrong = copy.deepcopy(dashboard)
    by_kind = {panel["type"]: panel for panel in wrong["panels"]}
    stat, curve = by_kind["stat"], by_kind["timeseries"]
    wrong["refesh"] = "30s"
    stat["options"]["colourMode"] = "value"
    curve["options"]["legend"]["displayMode"] = "lists"
    curve["fieldConfig"]["defaults"]["units"] = "s"
    curve["title"] = 1
    return wrong


@pytest.fixture(scope="module")
def complaints() -> list[str]:
    ours = {name.removesuffix(".json"): json.loads(text) for name, text in generated().items()}
    return dashboard_complaints({**ours, "mistaken": _mistaken(ours["serving"])})


def test_grafanas_types_have_nothing_against_a_dashboard(complaints: list[str]) -> None:
    assert [each for each in complaints if not each.startswith("mistaken")] == []


@pytest.mark.parametrize("mistake", MISTAKES)
def test_grafanas_types_find_a_mistake(complaints: list[str], mistake: str) -> None:
    assert any(mistake in each for each in complaints)


def test_the_types_are_those_of_the_grafana_that_runs() -> None:
    image = yaml.safe_load((ROOT / "compose.yaml").read_text())["services"]["grafana"]["image"]
    typed = json.loads((SCHEMAS / "package.json").read_text())["devDependencies"]["@grafana/schema"]
    assert image == f"grafana/grafana:{typed}"
