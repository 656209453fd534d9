"""Keys, ports, locks and records of a state directory."""

import os
import socket
import stat
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from cli.stack import postgres
from cli.stack.place import (
    Place,
    ProcessMark,
    StackRecord,
    own_mark,
    read_or_make_keys,
    read_record,
    refuse_running,
    running_stack,
    take_lock,
    write_record,
)
from cli.stack.ports import free_port, listening_port
from cli.stack.processes import ProcessSpec, Tier, await_end, spawn
from cli.stack.supervisor import end_leftovers
from kernelzoo.errors import StackError


@pytest.fixture
def place(tmp_path: Path) -> Place:
    place = Place.at(tmp_path / "state")
    place.make()
    return place


def _record(supervisor: ProcessMark) -> StackRecord:
    return StackRecord(url="http://127.0.0.1:8787", supervisor=supervisor, processes=())


def test_keys_are_made_once_and_only_their_owner_reads_them(place: Place) -> None:
    keys = read_or_make_keys(place)
    assert read_or_make_keys(place) == keys
    assert keys.operator != keys.token_secret
    for file in place.keys.iterdir():
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(place.keys.stat().st_mode) == 0o700


def test_others_cannot_look_into_the_state_and_only_its_owner_reads_logs(place: Place) -> None:
    """Root's PostgreSQL is a user of its own, and passes through."""
    place.root.chmod(0o755)
    place.make()
    alone = 0o711 if os.geteuid() == 0 else 0o700
    assert stat.S_IMODE(place.root.stat().st_mode) == alone
    log = place.log("service")
    log.write_text("of an earlier version\n")
    log.chmod(0o644)
    spec = ProcessSpec(
        name="service", tier=Tier.SERVICE, command=("true",), env=(), log=log, grace_s=1
    )
    await_end(spawn(spec))
    assert stat.S_IMODE(log.stat().st_mode) == 0o600


def test_a_state_that_cannot_be_written_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StackError, match=r"file/state cannot be written: .* with --state DIR"):
        Place.at(tmp_path / "file" / "state").make()


def test_what_a_killed_supervisor_left_is_ended_before_its_port_is_asked_for(place: Place) -> None:
    listen = "import socket, time; s = socket.socket(); s.bind(('127.0.0.1', 0)); s.listen();"
    listen += "print(s.getsockname()[1], flush=True); time.sleep(60)"
    left = subprocess.Popen((sys.executable, "-c", listen), stdout=subprocess.PIPE, text=True)
    assert left.stdout is not None
    port = int(left.stdout.readline())
    mark = ProcessMark.of("gateway", left.pid)
    dead = ProcessMark(name="supervisor", pid=left.pid, created_s=0.0)
    assert mark is not None
    write_record(place, StackRecord(url="http://127.0.0.1", supervisor=dead, processes=(mark,)))
    with pytest.raises(StackError, match="in use"):
        listening_port("127.0.0.1", port)
    assert end_leftovers(place) == 1
    assert listening_port("127.0.0.1", port) == port
    left.wait(5)
    left.stdout.close()


def test_a_taken_port_is_refused_with_the_remedy() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(StackError, match=rf"port {port}: .* in use; .*--port N"):
            listening_port("127.0.0.1", port)


def test_port_zero_becomes_a_free_one() -> None:
    assert listening_port("127.0.0.1", 0) > 0


def test_a_free_port_is_kept_and_none_that_a_connection_could_take() -> None:
    port = free_port()
    assert listening_port("127.0.0.1", port) == port
    assert port < int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])


def test_without_an_address_of_this_machine_no_port_is_free() -> None:
    with pytest.raises(StackError, match=r"cannot listen on 192\.0\.2\.1"):
        free_port("192.0.2.1")


def test_a_port_beyond_the_last_is_refused() -> None:
    with pytest.raises(StackError, match="up to 65535"):
        listening_port("127.0.0.1", 70_000)


def test_without_a_stack_the_sentence_says_how_to_start_one(place: Place) -> None:
    with pytest.raises(StackError, match="start one with `kernelzoo up`"):
        running_stack(place)


def test_the_record_of_a_dead_supervisor_counts_as_no_stack(place: Place) -> None:
    alive = own_mark()
    write_record(place, _record(ProcessMark(name="supervisor", pid=alive.pid, created_s=1.0)))
    refuse_running(place)
    with pytest.raises(StackError, match="no stack runs"):
        running_stack(place)


def test_a_running_stack_is_found_and_not_started_twice(place: Place) -> None:
    record = _record(own_mark())
    write_record(place, record)
    assert running_stack(place) == record
    with pytest.raises(StackError, match=r"runs already .* http://127.0.0.1:8787"):
        refuse_running(place)


def test_half_a_record_is_no_record(place: Place) -> None:
    place.record.write_text('{"url": "http')
    assert read_record(place) is None


def test_one_supervisor_holds_the_lock_at_a_time(place: Place) -> None:
    with take_lock(place), pytest.raises(StackError, match="just starting"):
        take_lock(place)
    take_lock(place).close()


@pytest.mark.parametrize("lines", [["1"], ["not a number", *"1234567"]])
def test_a_broken_postmaster_file_is_dropped(place: Place, lines: list[str]) -> None:
    place.postgres.mkdir()
    file = place.postgres / "postmaster.pid"
    file.write_text("\n".join(lines))
    postgres._drop_stale_pid_file(place.postgres)
    assert not file.exists()


def test_a_postmaster_file_that_names_another_program_is_dropped(place: Place) -> None:
    place.postgres.mkdir()
    file = place.postgres / "postmaster.pid"
    file.write_text("\n".join([str(os.getpid()), *"1234567"]))
    postgres._drop_stale_pid_file(place.postgres)
    assert not file.exists()


def test_the_socket_of_a_killed_server_is_free_again_though_nobody_waited_for_it(
    place: Place, tmp_path: Path
) -> None:
    zombie = subprocess.Popen(["true"])
    while psutil.Process(zombie.pid).status() != psutil.STATUS_ZOMBIE:
        time.sleep(0.01)
    lines = [str(zombie.pid), str(place.postgres), "0", "5432", str(tmp_path), "", "0", "ready"]
    place.postgres.mkdir(exist_ok=True)
    (place.postgres / "postmaster.pid").write_text("\n".join(lines) + "\n")
    own, other = (tmp_path / f".s.PGSQL.{port}.lock" for port in (5432, 5433))
    own.write_text(f"{zombie.pid}\n")
    other.write_text("1\n")
    postgres._drop_stale_pid_file(place.postgres)
    assert (own.exists(), other.exists()) == (False, True)
    zombie.wait()
