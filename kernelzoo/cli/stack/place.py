"""Where a stack keeps what survives it: one directory, `.kernelzoo` unless told otherwise."""

from dataclasses import dataclass
from pathlib import Path
from typing import Self


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """`root` is absolute. Nothing of a stack lies outside it."""

    root: Path

    @classmethod
    def at(cls, directory: Path) -> Self:
        return cls(root=directory.expanduser().resolve())

    @property
    def postgres(self) -> Path:
        return self.root / "postgres"

    @property
    def postgres_log(self) -> Path:
        return self.postgres / "log"

    @property
    def redis(self) -> Path:
        return self.root / "redis"

    @property
    def logs(self) -> Path:
        return self.root / "logs"

    @property
    def keys(self) -> Path:
        return self.root / "keys"

    @property
    def fleet(self) -> Path:
        """Browser profiles and the fleet's status file."""
        return self.root / "fleet"

    @property
    def metrics(self) -> Path:
        """What each service's processes count, in a folder of its name."""
        return self.root / "metrics"

    @property
    def record(self) -> Path:
        return self.root / "stack.json"

    @property
    def lock(self) -> Path:
        return self.root / "stack.lock"

    def log(self, name: str) -> Path:
        return self.logs / f"{name}.log"

    def make(self) -> None:
        for directory in (self.root, self.redis, self.logs, self.fleet):
            directory.mkdir(parents=True, exist_ok=True)
