"""The whole stack as `kernelzoo up` runs it, in a directory of the test's own."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, LiteralString

import psycopg

from cli.stack.monitoring import MonitoringPlan
from cli.stack.place import Place
from cli.stack.plan import StackOptions
from cli.stack.ports import LOOPBACK, free_port
from cli.stack.supervisor import Stack, running, tended

OVERRIDES = (
    ("KERNELZOO_QUORUM", "1"),
    ("KERNELZOO_MAX_MALICIOUS_SHARE", "0"),
    ("KERNELZOO_STALLED_S", "1"),
    ("KERNELZOO_LEASE_S", "5"),
)


@contextmanager
def running_stack(
    directory: Path,
    monitoring: MonitoringPlan | None = None,
    port: int | None = None,
    overrides: tuple[tuple[str, str], ...] = (),
) -> Iterator[Stack]:
    """Restarts what dies, as `up` does, while the test goes on."""
    options = StackOptions(
        host=LOOPBACK,
        port=port or free_port(),
        redis_port=free_port(),
        monitoring=monitoring,
        overrides=(*OVERRIDES, *overrides),
    )
    with running(Place.at(directory), options) as stack, tended(stack):
        yield stack


def eventually(condition: Callable[[], bool], what: str, within_s: float = 45) -> None:
    """Waits for `condition`; fails with `what` did not happen."""
    deadline_s = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline_s, f"{what} did not happen within {within_s:g} s"
        time.sleep(0.02)


def rows(stack: Stack, sql: LiteralString) -> list[tuple[Any, ...]]:
    """Asks the stack's database."""
    with psycopg.connect(stack.postgres.url) as connection:
        return connection.execute(sql).fetchall()
