"""Starting and ending one process with all that it started."""

import atexit
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import cast

import psutil
import psycopg
import pytest

from cli.stack import supervisor
from cli.stack.place import Keys, Place
from cli.stack.postgres import Postgres, start_postgres
from cli.stack.processes import (
    LONGEST_DELAY_S,
    STEADY_S,
    ProcessSpec,
    Tier,
    ask_to_end,
    await_end,
    ending,
    is_alive,
    next_restart,
    spawn,
)
from cli.stack.supervisor import DEATHS_AT_START, Stack
from kernelzoo.errors import StackError


def _spec(tmp_path: Path, script: str, grace_s: float = 5) -> ProcessSpec:
    return ProcessSpec(
        name="worker",
        tier=Tier.SERVICE,
        command=(sys.executable, "-c", script),
        env=(("KZ_WORD", "hello"),),
        log=tmp_path / "worker.log",
        grace_s=grace_s,
    )


def _await_log(log: Path) -> str:
    deadline_s = time.monotonic() + 10
    while not (text := log.read_text()).endswith("\n") and time.monotonic() < deadline_s:
        time.sleep(0.02)
    return text


def test_output_goes_to_the_log_and_the_environment_is_added(tmp_path: Path) -> None:
    child = spawn(_spec(tmp_path, "import os; print(os.environ['KZ_WORD'])"))
    assert await_end(child)
    assert child.spec.log.read_text() == "hello\n"
    assert ending(child) == "ended with code 0"


def test_a_program_that_is_missing_is_named(tmp_path: Path) -> None:
    spec = _spec(tmp_path, "")
    absent = ProcessSpec(
        name="redis",
        tier=Tier.BROKER,
        command=("no-such-program",),
        env=(),
        log=spec.log,
        grace_s=1,
    )
    with pytest.raises(StackError, match="redis cannot be started: no-such-program: No such"):
        spawn(absent)


def test_a_process_that_ignores_sigterm_is_killed_after_its_grace(tmp_path: Path) -> None:
    script = (
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
        "print('up', flush=True); time.sleep(60)"
    )
    child = spawn(_spec(tmp_path, script, grace_s=0.2))
    _await_log(child.spec.log)
    ask_to_end(child)
    assert not await_end(child)
    assert ending(child) == "was ended by SIGKILL"


def test_what_a_process_started_ends_with_it(tmp_path: Path) -> None:
    script = (
        "import subprocess, sys, time;"
        "p = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)']);"
        "print(p.pid, flush=True); time.sleep(60)"
    )
    child = spawn(_spec(tmp_path, script))
    grandchild = psutil.Process(int(_await_log(child.spec.log)))
    ask_to_end(child)
    await_end(child)
    psutil.wait_procs([grandchild], timeout=5)
    assert not is_alive(grandchild)


def test_a_process_that_keeps_dying_is_started_ever_later() -> None:
    first = next_restart(None, lived_s=1, now_s=100)
    second = next_restart(first, lived_s=1, now_s=200)
    assert (first.deaths, second.deaths) == (1, 2)
    assert second.at_s - 200 > first.at_s - 100
    many = first
    for _ in range(20):
        many = next_restart(many, lived_s=1, now_s=0)
    assert many.at_s == LONGEST_DELAY_S


def test_a_long_life_wipes_the_slate() -> None:
    once = next_restart(None, lived_s=1, now_s=0)
    twice = next_restart(once, lived_s=1, now_s=0)
    assert next_restart(twice, lived_s=STEADY_S, now_s=0).deaths == 1


class _Server:
    """Stands for PostgreSQL where its process is not the point."""

    def __init__(self, *, runs: bool) -> None:
        self._runs = runs
        self.url = ""

    def running(self) -> bool:
        return self._runs


def _stack(tmp_path: Path, server: object) -> Stack:
    place = Place.at(tmp_path / "state")
    place.make()
    keys = Keys(operator="o", token_secret="t", signing="s")
    return Stack(
        place=place, keys=keys, url="http://127.0.0.1:1", postgres=cast("Postgres", server)
    )


def test_a_postgresql_that_does_not_start_is_tried_ever_later_and_ends_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The memory of a killed one was in use for a moment, and the whole stack ended for good."""
    stack, now_s, tries = _stack(tmp_path, _Server(runs=False)), [100.0], 0

    def start(_: Place) -> Postgres:
        nonlocal tries
        tries += 1
        if tries < 4:
            raise StackError("pre-existing shared memory block is still in use")
        return cast("Postgres", _Server(runs=True))

    monkeypatch.setattr(supervisor, "start_postgres", start)
    monkeypatch.setattr("cli.stack.supervisor.time.monotonic", lambda: now_s[0])
    sentences = list(stack.tend())
    for wait_s in (0.5, 1.0, 2.0):
        tried = tries
        now_s[0] += wait_s / 2
        assert (stack.tend(), tries) == ((), tried), "not before its time"
        now_s[0] += wait_s / 2
        sentences += stack.tend()
    assert stack.postgres.running()
    assert [each for each in sentences if "in use; trying again in" in each] == sentences[1:4]
    assert sentences[-1] == "postgres started again"
    assert stack.restarts == {}


@pytest.mark.timeout(120)
def test_a_postgresql_that_is_killed_is_back_though_one_of_its_processes_works_on(
    tmp_path: Path,
) -> None:
    """It holds the shared memory, beside which no server starts."""
    place = Place.at(tmp_path / "state")
    place.make()
    stack = _stack(tmp_path, start_postgres(place))
    try:
        with psycopg.connect(stack.postgres.url, autocommit=True) as connection:
            row = connection.execute("SELECT pg_backend_pid()").fetchone()
            assert row is not None
            worker = psutil.Process(row[0])
            # The kernel ends it at its next step only: it notices no more than one that computes.
            worker.suspend()
            psutil.Process(stack.postgres.pid).kill()
            while stack.postgres.running():
                time.sleep(0.01)
            deadline_s = time.monotonic() + 60
            while not stack.postgres.running() and time.monotonic() < deadline_s:
                stack.tend()
                time.sleep(0.05)
        assert not is_alive(worker)
        with psycopg.connect(stack.postgres.url) as connection:
            assert connection.execute("SELECT 1").fetchone() == (1,)
    finally:
        stack.postgres.stop()
        # It would say so at the process's end, when the tests' log is closed.
        atexit.unregister(stack.postgres.server._cleanup)


def _dying(tmp_path: Path, deaths: int) -> ProcessSpec:
    """Says that it is ready, and dies of it the first times."""
    mark = str(tmp_path / "deaths")
    script = f"""
import os, pathlib, signal, time
mark = pathlib.Path({mark!r})
deaths = len(mark.read_text()) if mark.exists() else 0
print("ready", flush=True)
if deaths < {deaths}:
    mark.write_text("x" * (deaths + 1))
    os.kill(os.getpid(), signal.SIGKILL)
time.sleep(60)
"""
    return replace(_spec(tmp_path, script), ready_text="ready")


@pytest.mark.parametrize("deaths", [DEATHS_AT_START - 1, DEATHS_AT_START])
def test_a_process_that_dies_before_the_stack_is_up_is_started_again_until_that_is_in_vain(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, deaths: int
) -> None:
    stack = _stack(tmp_path, _Server(runs=True))
    stack.launch(_dying(tmp_path, deaths))
    child = stack.children["worker"]
    child.process.wait()
    monkeypatch.setattr(supervisor, "_is_ready", lambda _: True)
    try:
        if deaths < DEATHS_AT_START:
            supervisor._await_ready(stack)
            assert stack.children["worker"].alive
        else:
            with pytest.raises(StackError, match="worker was ended by SIGKILL; read"):
                supervisor._await_ready(stack)
    finally:
        stack.end("worker")
