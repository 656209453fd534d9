"""Metrics: their names, what labels may say, and what the processes of a service add up to."""

import ast
import inspect
import multiprocessing
import os
import subprocess
import sys
import threading
from multiprocessing.synchronize import Event
from pathlib import Path

import pytest
from prometheus_client.metrics import MetricWrapperBase
from pydantic import SecretStr

from kernelzoo import jobs, metrics
from kernelzoo.exporter import exporting
from kernelzoo.metrics import (
    ASKED,
    LABEL_VALUES,
    MODEL_CONFIRMED,
    MOST_MODELS,
    NO_ROUTE,
    engine_label,
)
from kernelzoo.settings import Settings
from services.gateway.app import application
from services.gateway.middleware import route_template
from tests.scraping import scrape

ROOT = Path(__file__).parents[3]
ALL = {name: value for name, value in vars(metrics).items() if isinstance(value, MetricWrapperBase)}
MOST_SERIES = 250
"""Series of one metric, before Prometheus adds an instance and a histogram its buckets."""


def _settings(port: int | None = None) -> Settings:
    return Settings(
        database_url="postgresql:///nowhere",
        redis_url="redis://127.0.0.1:1/0",
        operator_key=SecretStr("o"),
        token_secret=SecretStr("t" * 32),
        metrics_port=port,
    )


def _routes() -> set[str]:
    """Lists what `route` may say: every template of the gateway, its files, and nothing found."""
    paths = {route.path for route in application(_settings()).routes if hasattr(route, "path")}
    return paths | {"/client", NO_ROUTE}


@pytest.mark.parametrize("name", ALL)
def test_a_metric_has_a_help_text_and_labels_of_few_known_values(name: str) -> None:
    metric = ALL[name]
    assert metric._documentation
    series = 1
    for label in metric._labelnames:
        values = _routes() if label == "route" else LABEL_VALUES[label]
        assert values, label
        series *= len(values)
    assert series <= MOST_SERIES


def test_what_is_asked_of_the_database_has_known_labels_too() -> None:
    labels = {asked.name: asked.label for asked in ASKED}
    assert labels.pop(MODEL_CONFIRMED.name) == "model", "a name that the operator registered"
    assert set(labels.values()) <= {*LABEL_VALUES, ""}
    assert MOST_MODELS <= MOST_SERIES


def test_every_metric_is_exported_by_a_process_from_its_start() -> None:
    exported = {*metrics.GATEWAY, *metrics.COMPILE, *metrics.AGGREGATE}
    assert exported == set(ALL.values())


def test_metrics_are_made_in_their_module_alone() -> None:
    packages = ("cli", "kernelzoo", "services", "workers")
    for file in (file for each in packages for file in ROOT.glob(f"{each}/**/*.py")):
        if file == Path(metrics.__file__):
            continue
        called = {
            node.func.id
            for node in ast.walk(ast.parse(file.read_text()))
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
        }
        imported = "prometheus_client" in file.read_text()
        assert not (imported and called & {"Gauge", "Histogram", "Summary", "Counter"}), file


def test_every_job_has_its_label() -> None:
    named = {
        name
        for name, function in inspect.getmembers(jobs, inspect.isfunction)
        if inspect.signature(function).return_annotation is jobs.Message
    }
    assert named == set(LABEL_VALUES["task"])


def test_engines_that_nobody_knows_share_one_label() -> None:
    assert engine_label("Firefox") == "Firefox"
    assert engine_label("my own engine 4711") == "other"


def test_a_path_that_no_route_answers_is_no_label_of_its_own() -> None:
    assert route_template({"path": "/etc/passwd", "root_path": ""}) == NO_ROUTE
    assert route_template({"path": "/client/sdk.js", "root_path": "/client"}) == "/client"


COUNTING = """
import os, sys
from kernelzoo import metrics
metrics.JOBS_SENT.labels("requeue").inc(int(sys.argv[1]))
metrics.POLLS_WAITING.inc()
metrics.COMPILE_DURATION.labels("wasm", "kernel").observe(0.002)
child = os.fork()
if child == 0:
    metrics.JOBS_SENT.labels("requeue").inc(100)
    os._exit(0)
os.waitpid(child, 0)
print("counted", flush=True)
sys.stdin.read()
"""
SERVING = """
from kernelzoo.exporter import registry
from prometheus_client import generate_latest
print(generate_latest(registry()).decode())
"""


def _environment(directory: Path) -> dict[str, str]:
    return {**os.environ, "PROMETHEUS_MULTIPROC_DIR": str(directory)}


def _sum(directory: Path) -> dict[str, float]:
    said = subprocess.run(
        [sys.executable, "-c", SERVING],
        env=_environment(directory), cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    return {
        line.rpartition(" ")[0]: float(line.rpartition(" ")[2])
        for line in said.splitlines()
        if line and not line.startswith("#")
    }


def _count(directory: Path, by: int) -> subprocess.Popen[str]:
    started = subprocess.Popen(
        [sys.executable, "-c", COUNTING, str(by)],
        env=_environment(directory), cwd=ROOT, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip
    assert started.stdout is not None
    assert started.stdout.readline() == "counted\n"
    return started


def test_processes_of_a_service_and_their_forks_are_added_up_and_the_dead_forgotten(
    tmp_path: Path,
) -> None:
    directory = tmp_path / "made by the first of them"
    processes = [_count(directory, 3), _count(directory, 4)]
    both = _sum(directory)
    assert both['kernelzoo_jobs_sent_total{task="requeue"}'] == 3 + 100 + 4 + 100
    assert both['kernelzoo_compile_duration_seconds_count{stage="kernel",target="wasm"}'] == 2
    assert both["kernelzoo_polls_waiting"] == 2

    processes[0].kill()
    processes[0].communicate()
    one = _sum(directory)
    assert one["kernelzoo_polls_waiting"] == 1, "a poll of a dead process waits no more"
    assert one['kernelzoo_jobs_sent_total{task="requeue"}'] == 3 + 100 + 4 + 100, "what was, was"
    processes[1].communicate("")


def _serve(port: int, up: Event) -> None:
    with exporting(_settings(port)):
        up.set()
        multiprocessing.Event().wait()


def test_two_processes_of_a_service_listen_on_one_port(free_port: int) -> None:
    context = multiprocessing.get_context("spawn")
    events = [context.Event(), context.Event()]
    workers = [context.Process(target=_serve, args=(free_port, up), daemon=True) for up in events]
    for worker in workers:
        worker.start()
    assert all(up.wait(30) for up in events)
    workers[0].kill()
    workers[0].join()
    assert scrape(free_port)["kernelzoo_polls_waiting"] == 0
    workers[1].kill()
    workers[1].join()


def test_without_a_port_nothing_is_served() -> None:
    before = threading.enumerate()
    with exporting(_settings()):
        assert threading.enumerate() == before, "a server has a thread"
