"""The container engine: the one that runs, else Docker's, started here in a folder of its own."""

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from kernelzoo.errors import StackError
from scripts.deployment.commands import output, succeeds
from scripts.deployment.debian import unpack

STATE = Path(__file__).parents[2] / ".kernelzoo" / "deployment"
"""An engine of our own keeps its images here; several GB."""
STARTING_S = 60
ENDING_S = 60
PLUGIN = Path("usr/libexec/docker/cli-plugins/docker-compose")
COMPOSE_RELEASE = "trixie"
"""The first release of Debian whose docker-compose is the plugin of `docker compose`."""


def no_engine() -> str | None:
    """Says why no engine can run here, and what to do; None where one can."""
    if succeeds("docker", "info"):
        return None
    if os.geteuid() != 0:
        return "no container engine runs, and only root may start one: start Docker, or be root"
    programs = ("dockerd", "docker", "debootstrap")
    if lacking := [name for name in programs if shutil.which(name) is None]:
        return (
            f"no container engine runs, and {', '.join(lacking)} is not installed: "
            "`apt-get install docker.io debootstrap`"
        )
    return None


@contextmanager
def running_engine(folder: Path) -> Iterator[Mapping[str, str]]:
    """The environment in which `docker` and `docker compose` reach an engine. One that was started
    here keeps its images in `folder`, and ends. Raises StackError where none can run.
    """
    if why := no_engine():
        raise StackError(why)
    if succeeds("docker", "info"):
        yield _with_compose(dict(os.environ), folder)
        return
    with _started(folder) as host:
        yield _with_compose({**os.environ, "DOCKER_HOST": host}, folder)


@contextmanager
def _started(folder: Path) -> Iterator[str]:
    """Docker's engine, whose address is a socket in `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    socket, log = folder / "engine.sock", folder / "engine.log"
    command = (
        "dockerd",
        *("--host", f"unix://{socket}", "--pidfile", folder / "engine.pid"),
        *("--data-root", folder / "images", "--exec-root", folder / "containers"),
    )
    with log.open("wb") as said:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=said, stderr=said, start_new_session=True
        )
    try:
        _await_engine(process, f"unix://{socket}", log)
        yield f"unix://{socket}"
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(ENDING_S)
        except subprocess.TimeoutExpired:
            process.kill()


def _await_engine(process: "subprocess.Popen[bytes]", host: str, log: Path) -> None:
    deadline_s = time.monotonic() + STARTING_S
    while not succeeds("docker", "--host", host, "info"):
        if process.poll() is not None or time.monotonic() > deadline_s:
            last = "\n".join(log.read_text(errors="replace").splitlines()[-5:])
            raise StackError(f"Docker's engine did not start; {log} ends with:\n{last}")
        time.sleep(0.2)


def _with_compose(env: dict[str, str], folder: Path) -> Mapping[str, str]:
    """Takes the plugin from Debian's archive where `docker compose` is missing."""
    if succeeds("docker", "compose", "version", env=env):
        return env
    settings = folder / "client"
    plugin = settings / "cli-plugins" / "docker-compose"
    if not plugin.exists():
        unpack("docker-compose", COMPOSE_RELEASE, folder / "compose")
        plugin.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(folder / "compose" / PLUGIN, plugin)
    found = {**env, "DOCKER_CONFIG": str(settings)}
    output("docker", "compose", "version", env=found)
    return found
