"""Where a stack keeps what survives it: one directory, `.kernelzoo` unless told otherwise."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from kernelzoo.errors import StackError


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

    def fleet_of(self, number: int) -> Path:
        """Of the first, the stack's own; further ones join it with profiles of their own."""
        return self.fleet if number == 1 else self.root / f"fleet-{number}"

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
        """Raises StackError where the directory cannot be written."""
        try:
            for directory in (self.root, self.redis, self.logs, self.fleet):
                directory.mkdir(parents=True, exist_ok=True)
            self.close()
        except OSError as error:
            raise StackError(
                f"{self.root} cannot be written: {error.strerror}; "
                "name another directory with --state DIR"
            ) from error

    def close(self) -> None:
        """To other users: its logs and profiles are its owner's. PostgreSQL, which root runs as a
        user of its own, must pass through it and opens it further at each start.
        """
        self.root.chmod(0o711 if os.geteuid() == 0 else 0o700)
