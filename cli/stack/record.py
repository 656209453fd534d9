"""`stack.json`: what runs on a state directory, for the other commands and for the next start."""

import fcntl
import os
from dataclasses import dataclass
from io import TextIOWrapper
from typing import Self

import msgspec
import psutil

from cli.stack.place import Place
from kernelzoo.errors import StackError


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessMark:
    """A process beyond doubt: `created_s` (epoch) tells a reused process id apart."""

    name: str
    pid: int
    created_s: float

    @classmethod
    def of(cls, name: str, pid: int) -> Self | None:
        try:
            return cls(name=name, pid=pid, created_s=psutil.Process(pid).create_time())
        except psutil.Error:
            return None

    def process(self) -> psutil.Process | None:
        """The live process that this marks, if there is one still."""
        try:
            process = psutil.Process(self.pid)
            same = abs(process.create_time() - self.created_s) < 0.05
            return process if same and process.status() != psutil.STATUS_ZOMBIE else None
        except psutil.Error:
            return None


@dataclass(frozen=True, slots=True, kw_only=True)
class StackRecord:
    url: str
    supervisor: ProcessMark
    processes: tuple[ProcessMark, ...]


def write_record(place: Place, record: StackRecord) -> None:
    draft = place.record.with_suffix(".draft")
    draft.write_bytes(msgspec.json.format(msgspec.json.encode(record)))
    draft.rename(place.record)


def read_record(place: Place) -> StackRecord | None:
    """None when there is none, or when a crash left half of one."""
    try:
        return msgspec.json.decode(place.record.read_bytes(), type=StackRecord)
    except (OSError, msgspec.DecodeError):
        return None


def running_stack(place: Place) -> StackRecord:
    """The stack that runs here. Raises StackError, with the remedy, when none does."""
    record = read_record(place)
    if record is None or record.supervisor.process() is None:
        raise StackError(
            f"no stack runs on {place.root}; start one with `kernelzoo up`, "
            "or name its directory with --state DIR"
        )
    return record


def refuse_running(place: Place) -> None:
    """Raises StackError when a stack runs here: an early answer, `take_lock` decides."""
    record = read_record(place)
    if record is not None and record.supervisor.process() is not None:
        raise StackError(_already_running(place))


def take_lock(place: Place) -> TextIOWrapper:
    """Hold the returned file open for as long as the stack runs; the kernel frees a dead one's."""
    handle = place.lock.open("a")
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        handle.close()
        raise StackError(_already_running(place)) from error
    return handle


def _already_running(place: Place) -> str:
    record = read_record(place)
    if record is None or record.supervisor.process() is None:
        return f"another kernelzoo is just starting on {place.root}; wait for it or end it"
    return (
        f"a stack runs already on {place.root}: {record.url} (process {record.supervisor.pid}); "
        "stop it with Ctrl-C there, or use another directory with --state DIR"
    )


def own_mark() -> ProcessMark:
    mark = ProcessMark.of("supervisor", os.getpid())
    assert mark is not None, "this process exists"
    return mark
