"""Alerts: valid rules, each with cases in which it fires and a section of the runbook."""

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[3]
RULES = ROOT / "dashboards" / "alerts" / "kernelzoo.yaml"
CASES = Path(__file__).with_name("alerts.test.yaml")
RUNBOOK = (ROOT / "docs" / "runbook.md").read_text()

_document: dict[str, Any] = yaml.safe_load(RULES.read_text())
ALERTS: dict[str, dict[str, Any]] = {
    rule["alert"]: rule for group in _document["groups"] for rule in group["rules"]
}


def _promtool(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["promtool", *arguments], capture_output=True, text=True, check=False)


def test_the_rules_are_valid() -> None:
    said = _promtool("check", "rules", RULES)
    assert said.returncode == 0, said.stdout + said.stderr


def _silent(folder: Path) -> Path:
    """The cases beside rules without annotations."""
    for group in (document := yaml.safe_load(RULES.read_text()))["groups"]:
        for rule in group["rules"]:
            del rule["annotations"]
    (folder / RULES.name).write_text(yaml.safe_dump(document))
    copy = folder / CASES.name
    copy.write_text(CASES.read_text())
    return copy


def test_alerts_fire_when_they_should_and_not_else(tmp_path: Path) -> None:
    said = _promtool("test", "rules", _silent(tmp_path))
    assert said.returncode == 0, said.stdout + said.stderr


def test_an_alert_that_fires_unexpectedly_is_found(tmp_path: Path) -> None:
    copy = _silent(tmp_path)
    rules = tmp_path / RULES.name
    rules.write_text(rules.read_text().replace("> 0.01", ">= 0"))
    assert _promtool("test", "rules", copy).returncode != 0


@pytest.mark.parametrize("name", ALERTS)
def test_an_alert_has_a_case_in_which_it_fires(name: str) -> None:
    cases = [
        case
        for test in yaml.safe_load(CASES.read_text())["tests"]
        for case in test["alert_rule_test"]
        if case["alertname"] == name
    ]
    assert any(case.get("exp_alerts") for case in cases)


@pytest.mark.parametrize("name", ALERTS)
def test_an_alert_leads_to_its_section_of_the_runbook(name: str) -> None:
    annotations = ALERTS[name]["annotations"]
    address = "{{ $externalLabels.kernelzoo }}/runbook#" + name.lower()
    assert annotations["runbook_url"] == address
    section = re.search(rf"^## {name}\n\n(.+?)(?=^## |\Z)", RUNBOOK, re.MULTILINE | re.DOTALL)
    assert section is not None, "docs/runbook.md has no section of its name"
    assert len(section[1]) > 120, "a section says what it means and what to do"


def test_the_runbook_speaks_of_no_alert_that_there_is_not() -> None:
    assert set(re.findall(r"^## (Kernelzoo\w+)$", RUNBOOK, re.MULTILINE)) == ALERTS.keys()
