"""A browser's process: the leader of a group, so that nothing of it is left when it is killed."""

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from workers.fleet.browsers import PageLost

POLITE_S = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class BrowserProcess:
    """What it says goes to `log`, which each start empties."""

    program: str
    process: subprocess.Popen[bytes]
    log: Path

    @classmethod
    def start(cls, command: Sequence[str], log: Path, env: Mapping[str, str]) -> Self:
        with log.open("wb") as output:
            process = subprocess.Popen(
                command,
                env={**os.environ, **env},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        return cls(program=command[0], process=process, log=log)

    def insist(self) -> None:
        """Raises PageLost with the last thing that it said when it has ended."""
        if (code := self.process.poll()) is not None:
            lines = self.log.read_text(errors="replace").splitlines()
            said = f": {lines[-1]}" if lines else ""
            raise PageLost(f"{self.program} ended with code {code}{said}")

    def wait(self) -> None:
        """Gives it time to end by itself."""
        try:
            self.process.wait(POLITE_S)
        except subprocess.TimeoutExpired:
            return

    def kill(self) -> None:
        """The whole group; harmless when it is gone."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
