"""One process of the stack: start it, see whether it lives, end it."""

import os
import signal
import subprocess
import time
from dataclasses import dataclass

from cli.stack.process import ProcessSpec
from kernelzoo.errors import StackError


@dataclass(frozen=True, slots=True, kw_only=True)
class Child:
    """The leader of a process group of its own, out of reach of the terminal's Ctrl-C. Its words
    begin at byte `log_start` of its log.
    """

    spec: ProcessSpec
    process: subprocess.Popen[bytes]
    started_s: float
    log_start: int

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    @property
    def lived_s(self) -> float:
        return time.monotonic() - self.started_s

    def said(self) -> str:
        with self.spec.log.open("rb") as log:
            log.seek(self.log_start)
            return log.read().decode(errors="replace")


def spawn(spec: ProcessSpec) -> Child:
    """Standard output and error are appended to its log, which the owner alone can read."""
    descriptor = os.open(spec.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    with os.fdopen(descriptor, "ab") as log:
        os.fchmod(descriptor, 0o600)
        log_start = os.fstat(descriptor).st_size
        try:
            process = subprocess.Popen(
                spec.command,
                env={**os.environ, **dict(spec.env)},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as error:
            raise StackError(
                f"{spec.name} cannot be started: {spec.command[0]}: {error.strerror}; "
                "`make build` installs what is missing"
            ) from error
    started_s = time.monotonic()
    return Child(spec=spec, process=process, started_s=started_s, log_start=log_start)


def ask_to_end(child: Child) -> None:
    """Only the leader is asked: a Celery pool must outlive the task that it is running."""
    if child.alive:
        child.process.terminate()


def await_end(child: Child) -> bool:
    """Waits for the process's grace, then kills its group. False when that was necessary."""
    try:
        child.process.wait(child.spec.grace_s)
    except subprocess.TimeoutExpired:
        kill_group(child)
        child.process.wait()
        return False
    kill_group(child)
    return True


def kill_group(child: Child) -> None:
    try:
        os.killpg(child.process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def ending(child: Child) -> str:
    """How it ended, in words. Only for a process that has."""
    code = child.process.returncode
    if code >= 0:
        return f"ended with code {code}"
    return f"was ended by {signal.Signals(-code).name}"
