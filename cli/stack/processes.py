"""The processes of a stack: what each one runs, how it is started, watched, restarted and ended.

Browsers and PostgreSQL open sessions of their own. On Linux the supervisor becomes the parent of
every descendant whose own parent ends (PR_SET_CHILD_SUBREAPER), so none can get lost.
"""

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import IntEnum
from pathlib import Path

import psutil

from cli.stack.place import StackRecord
from kernelzoo.errors import StackError

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
    """Standard output and error are appended to its log, which the owner alone can read.
    Raises StackError where the program cannot be started.
    """
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
    """Says in words how a process ended. Only for one that has."""
    code = child.process.returncode
    if code >= 0:
        return f"ended with code {code}"
    return f"was ended by {signal.Signals(-code).name}"


FIRST_DELAY_S = 0.5
LONGEST_DELAY_S = 30.0
STEADY_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Restart:
    """`deaths` in a row, each after less than `STEADY_S` of life; the next start is `at_s`."""

    deaths: int
    at_s: float


def next_restart(previous: Restart | None, lived_s: float, now_s: float) -> Restart:
    steady = previous is None or lived_s >= STEADY_S
    deaths = 1 if steady or previous is None else previous.deaths + 1
    return Restart(deaths=deaths, at_s=now_s + delay_s(deaths))


def delay_s(deaths: int) -> float:
    return min(LONGEST_DELAY_S, FIRST_DELAY_S * 2.0 ** min(deaths - 1, 16))


_PR_SET_CHILD_SUBREAPER = 36


def adopt_orphans() -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def descendants() -> tuple[psutil.Process, ...]:
    return tuple(psutil.Process().children(recursive=True))


def reap(known: Iterable[int]) -> None:
    """Collects adopted children that have ended. `known` are left to those who wait for them."""
    spared = frozenset(known)
    for child in psutil.Process().children():
        try:
            if child.pid not in spared and child.status() == psutil.STATUS_ZOMBIE:
                os.waitpid(child.pid, os.WNOHANG)
        except (psutil.Error, ChildProcessError):
            continue


def kill_all(processes: Iterable[psutil.Process], grace_s: float = 3) -> int:
    """Kills them and says how many there were to kill."""
    living = [process for process in processes if is_alive(process)]
    for process in living:
        try:
            process.kill()
        except psutil.NoSuchProcess:
            continue
    psutil.wait_procs(living, timeout=grace_s)
    return len(living)


def kill_leftovers(record: StackRecord | None) -> int:
    """Ends what a killed supervisor left behind; PostgreSQL is not among it, it is adopted."""
    marks = record.processes if record is not None else ()
    roots = [process for mark in marks if (process := mark.process()) is not None]
    trees = [tree for root in roots for tree in (root, *_children(root))]
    return kill_all(trees)


def _children(process: psutil.Process) -> list[psutil.Process]:
    try:
        return process.children(recursive=True)
    except psutil.NoSuchProcess:
        return []


def is_alive(process: psutil.Process) -> bool:
    """Whoever adopts a process may be slow to reap it, or never do so: a zombie has ended."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
