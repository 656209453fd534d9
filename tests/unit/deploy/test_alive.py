"""Health checks of containers say what is wrong."""

import os
from pathlib import Path

import pytest

from workers import alive
from workers.fleet import alive as fleet
from workers.fleet.status import AgentStatus, FleetStatus


def test_a_file_that_was_touched_is_well(tmp_path: Path) -> None:
    file = tmp_path / "alive"
    alive.touch(file)
    assert alive.complaint(file, file.stat().st_mtime + alive.STALE_S) is None


def test_a_file_that_grew_old_or_was_never_there_is_not(tmp_path: Path) -> None:
    file = tmp_path / "alive"
    assert "has not turned yet" in (alive.complaint(file, 0.0) or "")
    alive.touch(file)
    late_s = file.stat().st_mtime + alive.STALE_S + 1
    assert "touched 31 s ago" in (alive.complaint(file, late_s) or "")


def test_the_check_ends_with_what_it_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "alive"
    monkeypatch.delenv("KERNELZOO_ALIVE_FILE", raising=False)
    assert alive.main() == 2
    assert "set KERNELZOO_ALIVE_FILE" in capsys.readouterr().err
    monkeypatch.setenv("KERNELZOO_ALIVE_FILE", str(file))
    assert alive.main() == 1
    alive.touch(file)
    assert alive.main() == 0
    os.utime(file, (0, 0))
    assert alive.main() == 1


def _fleet(*states: str) -> FleetStatus:
    agents = tuple(AgentStatus(agent=f"agent-{n}", state=s) for n, s in enumerate(states))
    return FleetStatus(url="https://zoo.example", agents=agents)


def test_a_fleet_is_well_while_one_agent_has_its_page() -> None:
    assert fleet.complaint(_fleet("restarting", "measuring")) is None


@pytest.mark.parametrize("states", [("restarting",), ("starting", "restarting")])
def test_a_fleet_without_a_page_is_not_well(states: tuple[str, ...]) -> None:
    assert fleet.complaint(_fleet(*states)) == "no agent has a page of https://zoo.example open"
    assert fleet.complaint(None) == "the fleet has not started an agent yet"
