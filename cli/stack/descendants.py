"""Every process that a stack started, also those that left its process groups.

Browsers and PostgreSQL open sessions of their own. On Linux the supervisor becomes the parent of
every descendant whose own parent ends (PR_SET_CHILD_SUBREAPER), so none can get lost.
"""

import ctypes
import os
import sys
from collections.abc import Iterable

import psutil

from cli.stack.record import StackRecord

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
    living = [process for process in processes if _alive(process)]
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


def _alive(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
