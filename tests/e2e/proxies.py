"""A proxy before a zoo, as its sample has it, for as long as a test asks through it."""

import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import httpx2

from cli.stack.ports import LOOPBACK
from tests.running import eventually


@contextmanager
def proxying(command: Sequence[str | Path], port: int) -> Iterator[httpx2.Client]:
    """Runs the command of a proxy that listens on a port, and asks it once it answers."""
    process = subprocess.Popen(command)
    try:
        with httpx2.Client(base_url=f"http://{LOOPBACK}:{port}", timeout=30) as client:
            eventually(lambda: _listens(client), f"an answer of {command[0]}")
            yield client
    finally:
        process.terminate()
        process.wait(10)


def _listens(client: httpx2.Client) -> bool:
    try:
        client.get("/healthz")
    except httpx2.TransportError:
        return False
    return True
