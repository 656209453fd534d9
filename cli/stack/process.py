"""One process of the stack as a value: what is run, with what, and when it is ready."""

from dataclasses import dataclass, field
from enum import IntEnum
from pathlib import Path

Environment = tuple[tuple[str, str], ...]


class Tier(IntEnum):
    """Processes start in ascending and stop in descending order of their tier."""

    BROKER = 0
    SERVICE = 1
    FLEET = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessSpec:
    """`env` is added to the environment of the supervisor; it holds secrets.

    `grace_s` is how long the process may take to end after SIGTERM. `ready_text` appears in its
    log when it has started; with '' there is nothing to wait for. `files` are written, path and
    text, before it starts.
    """

    name: str
    tier: Tier
    command: tuple[str, ...]
    env: Environment = field(repr=False)
    log: Path
    grace_s: float
    ready_text: str = ""
    files: tuple[tuple[Path, str], ...] = field(default=(), repr=False)
