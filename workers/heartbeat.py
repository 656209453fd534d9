"""Touches the alive file from the loops of Celery: a worker's and the clock's.

A worker that waits for its broker turns no loop, so its file grows old, too.
"""

from pathlib import Path
from typing import Any

from celery import Celery, bootsteps
from celery.beat import Scheduler

from workers.alive import TOUCH_EVERY_S, touch

_CONFIGURED = "kernelzoo_alive_file"


def install(celery: Celery, file: Path | None) -> None:
    if file is not None:
        celery.conf[_CONFIGURED] = str(file)
        celery.steps["worker"].add(Heartbeat)


class Heartbeat(bootsteps.StartStopStep):  # type: ignore[misc]
    """A timer of the worker's main process, which never runs a task itself."""

    requires = ("celery.worker.components:Timer",)

    def start(self, parent: Any) -> None:
        file = Path(parent.app.conf[_CONFIGURED])
        parent.timer.call_repeatedly(TOUCH_EVERY_S, touch, (file,))


class Clock(Scheduler):  # type: ignore[misc]
    """`celery beat -S workers.heartbeat:Clock`: keeps its schedule in memory. After a restart
    every task waits for its period, of which the longest is an hour.
    """

    def tick(self, *arguments: Any, **keywords: Any) -> float:
        if file := self.app.conf.get(_CONFIGURED):
            touch(Path(file))
        seconds: float = super().tick(*arguments, **keywords)
        return seconds
