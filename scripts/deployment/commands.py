"""Commands of other programs, and what they said where they failed."""

import subprocess
from collections.abc import Mapping
from pathlib import Path

from kernelzoo.errors import StackError

LINES = 40
"""The last ones are shown: they say why."""


def output(
    *command: str | Path,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    shows_progress: bool = False,
) -> str:
    """Runs a command, and returns what it prints on standard output. Raises StackError with its
    last lines where it fails, or where there is no such program. With `shows_progress` what it says
    on standard error is seen at once."""
    words = [str(word) for word in command]
    try:
        done = subprocess.run(
            words,
            env=env,
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=None if shows_progress else subprocess.PIPE,
            text=True,
            check=False,
        )
    except FileNotFoundError as error:
        raise StackError(f"{words[0]} is not installed; {' '.join(words)} needs it") from error
    if done.returncode != 0:
        said = "\n".join((done.stdout + (done.stderr or "")).splitlines()[-LINES:])
        raise StackError(f"{' '.join(words)} ended with {done.returncode}:\n{said}")
    return done.stdout


def shown(*command: str | Path, env: Mapping[str, str], cwd: Path) -> None:
    """Runs a command that takes minutes, whose output people see. Raises StackError."""
    status = subprocess.run(command, env=env, cwd=cwd, check=False).returncode
    if status != 0:
        raise StackError(
            f"{' '.join(map(str, command))} ended with {status}; the lines above say why"
        )


def succeeds(*command: str | Path, env: Mapping[str, str] | None = None) -> bool:
    """Returns whether a command is there and ends with 0."""
    try:
        output(*command, env=env)
    except StackError:
        return False
    return True
