"""A fleet ends with the command that started it, also where that was ended by SIGKILL."""

import os
import subprocess
import sys
from pathlib import Path

import psutil

from cli.stack.processes import is_alive
from tests.running import eventually
from workers.fleet.run import is_taken

# As `kernelzoo fleet` does: it starts the fleet in a session of its own.
COMMAND = """
import os, subprocess, sys, time
fleet = subprocess.Popen([*sys.argv[1:], "--parent", str(os.getpid())], start_new_session=True)
print(fleet.pid, flush=True)
time.sleep(300)
"""


def test_a_fleet_whose_command_was_killed_ends_by_itself(tmp_path: Path) -> None:
    fleet = (sys.executable, "-m", "workers.fleet", "--browser", "chromium=1")
    # Nothing answers there, so that it waits without a browser.
    options = ("--url", "http://127.0.0.1:9", "--state", str(tmp_path))
    command = subprocess.Popen(
        (sys.executable, "-c", COMMAND, *fleet, *options),
        env={**os.environ, "KERNELZOO_OPERATOR_KEY": "key"},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert command.stdout is not None
    started = psutil.Process(int(command.stdout.readline()))
    try:
        eventually(lambda: is_taken(tmp_path), "the fleet runs", 60)
        assert started.is_running()
        command.kill()
        command.wait()
        eventually(lambda: not is_taken(tmp_path), "it has ended", 30)
        eventually(lambda: not is_alive(started), "nothing of it is left", 30)
    finally:
        command.kill()
        command.stdout.close()
        if started.is_running():
            started.kill()
