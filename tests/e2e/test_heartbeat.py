"""Workers and the clock touch their file while their loops turn, beside a real broker."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.stack.ports import free_port

PATIENCE_S = 60
CELERY = (sys.executable, "-m", "celery", "-A", "workers.app")


@pytest.fixture
def broker_url(tmp_path: Path) -> Iterator[str]:
    port = free_port()
    command = ["redis-server", "--port", str(port), "--save", "", "--dir", str(tmp_path)]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    yield f"redis://127.0.0.1:{port}/0"
    server.terminate()
    server.wait()


def _await_health(environment: dict[str, str], process: subprocess.Popen[bytes]) -> None:
    """Until the container's health check is content."""
    deadline_s = time.monotonic() + PATIENCE_S
    check = [sys.executable, "-m", "workers.alive"]
    while subprocess.run(check, env=environment, check=False, stderr=subprocess.DEVNULL).returncode:
        assert process.poll() is None, "it ended"
        assert time.monotonic() < deadline_s, "its file stayed old"
        time.sleep(0.2)


@pytest.mark.parametrize(
    "command",
    [
        pytest.param(
            (*CELERY, "worker", "-Q", "aggregate", "-c", "1"), marks=pytest.mark.slow, id="worker"
        ),
        pytest.param((*CELERY, "beat", "-S", "workers.heartbeat:Clock"), id="clock"),
    ],
)
def test_a_loop_that_turns_keeps_its_file_fresh(
    broker_url: str, tmp_path: Path, command: tuple[str, ...]
) -> None:
    file = tmp_path / "alive"
    environment = {
        **os.environ,
        "KERNELZOO_DATABASE_URL": "postgresql:///none",
        "KERNELZOO_REDIS_URL": broker_url,
        "KERNELZOO_ALIVE_FILE": str(file),
    }
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(command, env=environment, stderr=log, stdout=log)
        try:
            _await_health(environment, process)
            os.utime(file, (0, 0))
            _await_health(environment, process)
        finally:
            process.terminate()
            process.wait()
