"""Dashboards: the JSON that Grafana reads is that of the code, and fits our data sources."""

import json
import re
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
import yaml

from dashboards.generate import ALL, FOLDER, generated
from dashboards.model import COLUMNS, Dashboard, Metric, document
from kernelzoo.metrics import ASKED
from tests.unit.monitoring.exported import EXPORTED

ROOT = Path(__file__).parents[3]


def test_the_files_are_current() -> None:
    files = {path.name: path.read_text() for path in FOLDER.iterdir()}
    assert files == generated(), "run `python -m dashboards.generate`"


def _panels(dashboard: Dashboard) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = document(dashboard)["panels"]
    return found


@pytest.mark.parametrize("dashboard", ALL, ids=lambda each: each.uid)
def test_panels_do_not_overlap_and_say_what_they_show(dashboard: Dashboard) -> None:
    panels = _panels(dashboard)
    assert len({panel["title"] for panel in panels}) == len(panels)
    assert all(panel["description"] for panel in panels)
    places = [panel["gridPos"] for panel in panels]
    assert all(place["x"] + place["w"] <= COLUMNS for place in places)
    for one, other in combinations(places, 2):
        apart_x = one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
        apart_y = one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"]
        assert apart_x or apart_y


def test_the_data_sources_are_those_that_are_provisioned() -> None:
    text = (ROOT / "docker/grafana/datasources/kernelzoo.yaml").read_text()
    provisioned = {each["uid"]: each["type"] for each in yaml.safe_load(text)["datasources"]}
    for dashboard in ALL:
        variables = document(dashboard)["templating"]["list"]
        assert {v["current"]["value"]: v["query"] for v in variables} == provisioned


def test_every_metric_that_a_panel_asks_for_is_exported() -> None:
    asked = {
        name
        for dashboard in ALL
        for panel in dashboard.panels
        for ask in panel.ask
        if isinstance(ask, Metric)
        for name in re.findall(r"kernelzoo_\w+", ask.query)
    }
    assert asked
    assert asked - EXPORTED == set()


def test_every_metric_is_shown_somewhere_or_watched_by_an_alert() -> None:
    """A metric at which nobody looks need not be counted."""
    shown = (
        json.dumps(list(generated().values()))
        + (ROOT / "dashboards/alerts/kernelzoo.yaml").read_text()
    )
    plain = {re.sub(r"_(total|bucket|sum|count)$", "", name) for name in EXPORTED}
    silent = {name for name in plain if not re.search(rf"\b{name}", shown)}
    assert silent == SILENT
    assert {asked.name for asked in ASKED} <= plain


# For whoever looks into something: no panel needs them every day.
SILENT = {
    "kernelzoo_jobs_sent",
    "kernelzoo_leases",
    "kernelzoo_page_loads_lost",
    "kernelzoo_sessions",
}
