"""Serves the metrics of a process, and of those that share its directory, on a port of its own.

A port, and not a path of the gateway's: what is public is then decided by nobody's path rules.
"""

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from wsgiref.simple_server import WSGIRequestHandler, make_server

from prometheus_client import REGISTRY, CollectorRegistry, Metric, make_wsgi_app
from prometheus_client.exposition import ThreadingWSGIServer
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead
from prometheus_client.registry import Collector

from kernelzoo.metrics import DIRECTORY
from kernelzoo.serving import serving
from kernelzoo.settings import WorkerSettings


class _Server(ThreadingWSGIServer):
    """Several processes of one service listen on one port, and each answers for all of them."""

    allow_reuse_port = True


class _Quiet(WSGIRequestHandler):
    def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002 - as its parent
        """A scrape every few seconds is no news."""


class Processes(Collector):
    """Collects what the processes of a directory have counted. Counts of dead ones stay, gauges do
    not."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def collect(self) -> Iterable[Metric]:
        forget_dead(self._directory)
        added: Iterable[Metric] = MultiProcessCollector(None, str(self._directory)).collect()
        return added


def forget_dead(directory: Path) -> None:
    """Removes the gauges of processes that ended, however they did."""
    pids = {int(file.stem.rpartition("_")[2]) for file in directory.glob("gauge_live*.db")}
    for pid in pids:
        if not _lives(pid):
            mark_process_dead(pid, str(directory))


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def registry(*more: Collector) -> CollectorRegistry:
    """Makes the registry that this process exports: all that was counted, and what `more` asks when
    scraped."""
    found = CollectorRegistry()
    for collector in (Processes(Path(DIRECTORY)) if DIRECTORY else REGISTRY, *more):
        found.register(collector)
    return found


@contextmanager
def exporting(settings: WorkerSettings, *more: Collector) -> Iterator[None]:
    """Answers scrapes from a thread of its own, if the settings name a port."""
    if settings.metrics_port is None:
        yield
        return
    server = make_server(
        settings.metrics_host, settings.metrics_port, make_wsgi_app(registry(*more)),
        server_class=_Server, handler_class=_Quiet,
    )  # fmt: skip
    with serving(server):
        yield
