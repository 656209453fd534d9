"""The whole stack as `kernelzoo up` runs it, in a directory of the test's own."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kernelzoo.cli.stack.place import Place
from kernelzoo.cli.stack.plan import StackOptions
from kernelzoo.cli.stack.ports import LOOPBACK, free_port
from kernelzoo.cli.stack.supervisor import Stack, running

OVERRIDES = (
    ("KERNELZOO_QUORUM", "1"),
    ("KERNELZOO_STALLED_S", "1"),
    ("KERNELZOO_LEASE_S", "5"),
)


@contextmanager
def _tended(stack: Stack) -> Iterator[None]:
    """Restarts what dies, as `up` does, while the test goes on."""
    over = threading.Event()

    def tend() -> None:
        while not over.wait(0.1):
            stack.tend()

    thread = threading.Thread(target=tend)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@pytest.fixture
def stack(tmp_path: Path) -> Iterator[Stack]:
    options = StackOptions(
        host=LOOPBACK, port=free_port(), redis_port=free_port(), overrides=OVERRIDES
    )
    with running(Place.at(tmp_path), options) as started, _tended(started):
        yield started


@pytest.fixture
def eventually() -> Callable[[Callable[[], bool], str], None]:
    def wait(condition: Callable[[], bool], what: str, within_s: float = 45) -> None:
        deadline_s = time.monotonic() + within_s
        while not condition():
            assert time.monotonic() < deadline_s, f"{what} did not happen within {within_s:g} s"
            time.sleep(0.02)

    return wait
