"""`kernelzoo up` as people run it: started, disturbed, stopped and started again."""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx2
import psutil
import pytest

from cli.stack.place import Place, StackRecord, read_record
from cli.stack.processes import is_alive

pytestmark = pytest.mark.timeout(240)

COMMAND = (sys.executable, "-m", "cli")
K0 = "matmul:f32:m384k768n768"


@dataclass(frozen=True, slots=True, kw_only=True)
class Up:
    process: subprocess.Popen[str]
    place: Place
    output: Path

    def record(self) -> StackRecord:
        record = read_record(self.place)
        assert record is not None
        return record

    def tree(self) -> list[psutil.Process]:
        return psutil.Process(self.process.pid).children(recursive=True)

    def end(self, number: signal.Signals) -> list[psutil.Process]:
        """Ends it by a signal and returns its processes that live still."""
        tree = self.tree()
        self.process.send_signal(number)
        self.process.wait(60)
        return psutil.wait_procs(tree, timeout=2)[1]


@pytest.fixture
def start_up(tmp_path: Path) -> Iterator[Callable[..., Up]]:
    with starting_in(tmp_path) as start:
        yield start


@pytest.fixture(scope="module")
def start_shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Up]]:
    with starting_in(tmp_path_factory.mktemp("up")) as start:
        yield start


@pytest.fixture(scope="module")
def up(start_shared: Callable[..., Up]) -> Up:
    """One for the tests that leave it as it was, and for the last, which kills it."""
    return start_shared()


@contextmanager
def starting_in(folder: Path) -> Iterator[Callable[..., Up]]:
    started: list[Up] = []

    def start(*options: str) -> Up:
        output = folder / f"up-{len(started)}.txt"
        with output.open("w") as handle:
            process = subprocess.Popen(
                (*COMMAND, "up", "--port", "0", "--state", str(folder / "state"), *options),
                stdout=handle,
                stderr=subprocess.STDOUT,
                text=True,
            )
        up = Up(process=process, place=Place.at(folder / "state"), output=output)
        started.append(up)
        _until(lambda: "kernelzoo is up" in output.read_text() or process.poll() is not None)
        assert process.poll() is None, output.read_text()
        return up

    try:
        yield start
    finally:
        for up in started:
            if up.process.poll() is None:
                up.end(signal.SIGTERM)


def _until(holds: Callable[[], bool], limit_s: float = 60) -> None:
    deadline_s = time.monotonic() + limit_s
    while not holds():
        assert time.monotonic() < deadline_s, "it did not happen in time"
        time.sleep(0.1)


def _ready(url: str) -> bool:
    try:
        return httpx2.get(f"{url}/readyz", timeout=2).is_success
    except httpx2.TransportError:
        return False


def _tune(place: Place) -> None:
    subprocess.run(
        (*COMMAND, "tune", K0, "--no-wait", "--state", str(place.root)), check=True, timeout=60
    )


def _jobs(url: str) -> list[str]:
    return [job["workload"] for job in httpx2.get(f"{url}/v1/jobs").json()["jobs"]]


def test_ctrl_c_leaves_no_process_and_the_next_up_continues(start_up: Callable[[], Up]) -> None:
    first = start_up()
    _tune(first.place)
    assert first.end(signal.SIGINT) == []
    assert first.process.returncode == 0
    assert "the data stays in" in first.output.read_text()

    second = start_up()
    assert _jobs(second.record().url) == [K0]
    assert second.end(signal.SIGTERM) == []


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("prometheus") is None, reason="needs Prometheus")
def test_with_monitoring_it_says_where_prometheus_is_and_ends_it_too(
    start_up: Callable[..., Up],
) -> None:
    up = start_up("--with-monitoring")
    found = re.search(r"Prometheus\W+(http://127\.0\.0\.1:\d+)", up.output.read_text())
    assert found is not None, up.output.read_text()
    asked = f"{found[1]}/api/v1/query?query=up == 1"
    _until(lambda: len(httpx2.get(asked, timeout=20).json()["data"]["result"]) == 3)
    assert up.end(signal.SIGINT) == []


def test_a_process_that_dies_is_named_and_started_again(up: Up) -> None:
    record = up.record()
    gateway = next(mark for mark in record.processes if mark.name == "gateway")
    os.kill(gateway.pid, signal.SIGKILL)
    _until(lambda: "gateway started again" in up.output.read_text())
    _until(lambda: _ready(record.url))
    assert (
        "gateway was ended by SIGKILL; starting it again in 0.5 s, "
        f"its log is {up.place.log('gateway')}"
    ) in up.output.read_text()


def test_a_second_up_on_the_same_state_says_where_the_first_runs(up: Up) -> None:
    second = subprocess.run(
        (*COMMAND, "up", "--port", "0", "--state", str(up.place.root)),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert second.returncode == 1
    assert f"runs already on {up.place.root}: {up.record().url}" in second.stderr


def test_what_a_killed_supervisor_left_is_cleared_by_the_next_up_on_the_same_port(
    up: Up, start_shared: Callable[..., Up]
) -> None:
    _tune(up.place)
    tree, first_url = up.tree(), up.record().url
    up.process.kill()
    up.process.wait()
    postgres = [process for process in tree if process.name() == "postgres"]

    second = start_shared("--port", first_url.rpartition(":")[2])
    assert second.record().url == first_url
    assert "processes that a killed kernelzoo had left" in second.output.read_text()
    assert [process for process in tree if is_alive(process) and process not in postgres] == []
    assert _jobs(second.record().url) == [K0]
    second.end(signal.SIGINT)
    assert psutil.wait_procs(postgres, timeout=5)[1] == []


def _demo(place: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        (*COMMAND, "demo", "--short", "--state", str(place)),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


@pytest.mark.slow
def test_the_short_demo_goes_from_an_empty_zoo_to_a_network_in_two_engines(tmp_path: Path) -> None:
    """It fails where the page misses, or where both engines do not compute the same."""
    demo = _demo(tmp_path / "demo")
    said, _ = demo.communicate(timeout=200)
    assert demo.returncode == 0, said
    assert "zoo over default" in said
    network = said.partition("text encoder")[2]
    assert re.search(r"onnxruntime-web [\d.]+ +[\d.]+ ms", network), said
    assert re.search(r"zoo over it +[\d.]+×", network), said


def test_a_demo_that_is_interrupted_leaves_no_process(tmp_path: Path) -> None:
    demo = _demo(tmp_path / "demo")
    _until((tmp_path / "demo" / "fleet" / "status.json").exists)
    tree = psutil.Process(demo.pid).children(recursive=True)
    assert tree
    demo.send_signal(signal.SIGINT)
    said, _ = demo.communicate(timeout=60)
    assert demo.returncode == 130, said
    assert psutil.wait_procs(tree, timeout=2)[1] == []
