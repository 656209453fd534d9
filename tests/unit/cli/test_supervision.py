"""Starting and ending one process with all that it started."""

import sys
import time
from pathlib import Path

import psutil
import pytest

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
