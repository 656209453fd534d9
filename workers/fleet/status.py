"""Keeps what each agent of a fleet has done so far, in a file that other processes may read."""

from dataclasses import dataclass, field
from pathlib import Path

import msgspec


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentStatus:
    """`first_timed_ms` counts from the opening of the agent's page; None until then.

    A final ballot is filed once the agent has measured its share of a space. `engine` is the
    browser's with its version, as the page tells it to the gateway. `device_class` is the class
    that measures `workload`: an agent of two targets has two classes, which `device_classes` holds
    by target. All of them are empty until they are known. `trouble` is why the agent does not work
    now.
    """

    agent: str
    state: str
    browser: str = ""
    engine: str = ""
    device_class: str = ""
    device_classes: dict[str, str] = field(default_factory=dict)
    workload: str = ""
    trouble: str = ""
    measured: int = 0
    failed: int = 0
    ballots: int = 0
    final_ballots: int = 0
    restarts: int = 0
    first_timed_ms: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetStatus:
    """`peak_memory_bytes`: the most that its browsers have taken together."""

    url: str
    agents: tuple[AgentStatus, ...]
    peak_memory_bytes: int = 0


def write_status(directory: Path, status: FleetStatus) -> None:
    """Readers see either the old or the new file, never half of one."""
    draft = directory / "status.draft"
    draft.write_bytes(msgspec.json.encode(status))
    draft.rename(directory / "status.json")


def read_status(directory: Path) -> FleetStatus | None:
    """None before the first one."""
    try:
        return msgspec.json.decode((directory / "status.json").read_bytes(), type=FleetStatus)
    except (OSError, msgspec.DecodeError):
        return None
