"""The directory of a stack, `.kernelzoo` unless told otherwise, and what it holds: paths, the three
secrets, a lock, and `stack.json`, which tells other commands and the next start what runs here.
"""

import fcntl
import os
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from io import TextIOWrapper
from pathlib import Path
from typing import Self

import msgspec
import psutil

from kernelzoo.errors import StackError
from kernelzoo.signing import new_seed


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
    def models(self) -> Path:
        """Files of models: plans, weights, golden outputs."""
        return self.root / "models"

    @property
    def standby(self) -> Path:
        """Manifests and kernels that pages were given last, for times without a database."""
        return self.root / "standby"

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
        """Profiles of the first fleet, the stack's own, or of a further one that joins it."""
        return self.fleet if number == 1 else self.root / f"fleet-{number}"

    @property
    def metrics(self) -> Path:
        """Processes of each service count here, in a folder of its name."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Keys:
    operator: str = field(repr=False)
    token_secret: str = field(repr=False)
    signing: str = field(repr=False)


def read_or_make_keys(place: Place) -> Keys:
    place.keys.mkdir(mode=0o700, parents=True, exist_ok=True)
    return Keys(
        operator=_read_or_make(place.keys / "operator", _random),
        token_secret=_read_or_make(place.keys / "token-secret", _random),
        signing=_read_or_make(place.keys / "signing", new_seed),
    )


def _random() -> str:
    return secrets.token_urlsafe(32)


def _read_or_make(file: Path, make: Callable[[], str]) -> str:
    """The file is created with its mode, so there is no moment in which others can read it."""
    if not file.exists():
        draft = file.with_suffix(".draft")
        draft.unlink(missing_ok=True)
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w") as handle:
            handle.write(make())
        draft.rename(file)
    return file.read_text().strip()


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
    """Hold the returned file open for as long as the stack runs; the kernel frees a dead one's.
    Raises StackError when another process holds it.
    """
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
