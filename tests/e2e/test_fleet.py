"""`kernelzoo fleet` as people run it, in every browser that this machine has."""

import os
import signal
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from cli.gateway_client import GatewayClient
from cli.stack.place import Place
from cli.stack.supervisor import Stack
from kernelzoo.domain.target import TargetKind
from kernelzoo.domain.workload import Workload
from tests.running import eventually, rows, running_stack
from workers.fleet.browsers import BrowserKind
from workers.fleet.installed import MISSING, installed_browsers
from workers.fleet.status import AgentStatus, read_status

pytestmark = pytest.mark.timeout(300)

WORKLOAD = Workload.parse("matmul:f32:m5k7n3")
PATIENCE_S = 120
ENGINES = {
    BrowserKind.CHROMIUM: "Chromium",
    BrowserKind.FIREFOX: "Firefox",
    BrowserKind.WEBKIT: "Safari",
}
Start = Callable[..., psutil.Popen]


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """No fleet breaks it."""
    with running_stack(tmp_path_factory.mktemp("stack")) as started:
        yield started


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts fleets that share a state directory: of a stack, or of a gateway that is not there."""
    fleets: list[psutil.Popen] = []

    def started(*arguments: str, of: Stack | None = None) -> psutil.Popen:
        url, key = (of.url, of.keys.operator) if of else ("http://127.0.0.1:9", "nobody's")
        command = (sys.executable, "-m", "cli", "fleet", "--url", url)
        fleet = psutil.Popen(
            (*command, "--state", str(tmp_path / "fleet"), *arguments),
            env={**os.environ, "KERNELZOO_OPERATOR_KEY": key},
            stdout=subprocess.DEVNULL,
            start_new_session=True,
        )
        fleets.append(fleet)
        return fleet

    yield started
    for fleet in fleets:
        if fleet.poll() is None:
            end(fleet)


def end(fleet: psutil.Popen) -> list[psutil.Process]:
    """Ctrl-C; what lives still of what it had started."""
    tree = fleet.children(recursive=True)
    fleet.send_signal(signal.SIGINT)
    fleet.wait(60)
    return psutil.wait_procs(tree, timeout=2)[1]


def agents(directory: Path) -> dict[str, AgentStatus]:
    status = read_status(Place.at(directory / "fleet").fleet)
    return {} if status is None else {agent.agent: agent for agent in status.agents}


@pytest.fixture(scope="module")
def kinds() -> tuple[BrowserKind, ...]:
    """Lists the browsers that are installed here; the others are named, so that nobody takes them
    for tested."""
    tested = installed_browsers()
    for kind in BrowserKind:
        if kind not in tested:
            warnings.warn(f"not tested: {kind}; `apt-get install {MISSING[kind]()}`", stacklevel=1)
    return tested


@pytest.mark.slow
def test_a_fleet_measures_a_workload_to_the_end_in_every_engine(
    stack: Stack, start: Start, tmp_path: Path, kinds: tuple[BrowserKind, ...]
) -> None:
    with GatewayClient(url=stack.url, operator_key=stack.keys.operator) as gateway:
        gateway.register(WORKLOAD, TargetKind.WASM)
    fleet = start(*(word for kind in kinds for word in ("--browser", f"{kind}=1")), of=stack)

    def decided() -> bool:
        known = agents(tmp_path)
        return len(known) == len(kinds) and all(each.final_ballots for each in known.values())

    eventually(decided, "a final ballot of each engine", PATIENCE_S)
    wanted = [(name,) for name in sorted(ENGINES[kind] for kind in kinds)]
    measured = """
        SELECT DISTINCT s.engine_name FROM agent_session s
        JOIN lease l ON l.session_id = s.id JOIN measurement m ON m.lease_id = l.id
        WHERE m.outcome = 'ok' ORDER BY 1
        """
    assert rows(stack, measured) == wanted
    assert rows(stack, "SELECT bool_and(isolated) FROM agent_session") == [(True,)]
    verdicts = "SELECT DISTINCT outcome, verdict FROM measurement"
    eventually(lambda: rows(stack, verdicts) == [("ok", "verified")], "verified measurements")
    assert end(fleet) == [], "it left processes behind"


def browsers(fleet: psutil.Popen, words: tuple[str, ...]) -> list[psutil.Process]:
    """The browsers themselves, not the processes that they start for their tabs."""
    return [each for each in fleet.children(recursive=True) if _is_browser(each, words)]


def _is_browser(process: psutil.Process, words: tuple[str, ...]) -> bool:
    try:
        return (
            process.status() != psutil.STATUS_ZOMBIE
            and process.name().startswith(words)
            and "--type=" not in " ".join(process.cmdline())
        )
    except psutil.NoSuchProcess:  # It ended while it was looked at, as a tab's may.
        return False


NAMES = {
    BrowserKind.CHROMIUM: ("chromium", "chrome"),
    BrowserKind.FIREFOX: ("firefox",),
    BrowserKind.WEBKIT: ("MiniBrowser",),
}


@pytest.mark.parametrize("few", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_a_killed_browser_comes_back_as_the_same_identity(
    stack: Stack, start: Start, tmp_path: Path, kinds: tuple[BrowserKind, ...], *, few: bool
) -> None:
    kinds = kinds[:1] if few else kinds
    sessions = "SELECT identity_id, count(*) FROM agent_session GROUP BY 1"
    others = {identity for identity, _ in rows(stack, sessions)}
    fleet = start(*(word for kind in kinds for word in ("--browser", f"{kind}=1")), of=stack)

    def sessions_of_each() -> list[int]:
        return [count for identity, count in rows(stack, sessions) if identity not in others]

    def every_agent(state: str, restarts: int) -> bool:
        known = agents(tmp_path).values()
        return [(a.state, a.restarts) for a in known] == [(state, restarts)] * len(kinds)

    eventually(lambda: len(sessions_of_each()) == len(kinds), "a session of each", PATIENCE_S)
    eventually(lambda: every_agent("waiting", 0), "idle agents", PATIENCE_S)
    for kind in kinds:
        for process in browsers(fleet, NAMES[kind]):
            process.kill()
    eventually(lambda: every_agent("waiting", 1), "their restart", PATIENCE_S)
    again = sessions_of_each()
    assert len(again) == len(kinds), "one came back as another identity"
    assert min(again) >= 2
    assert end(fleet) == []


def test_a_fleet_without_its_gateway_starts_no_browser_and_waits(
    start: Start, tmp_path: Path
) -> None:
    fleet = start("--browser", "chromium=1")
    eventually(lambda: bool(agents(tmp_path)), "a status", PATIENCE_S)
    agent = agents(tmp_path)["chromium-1"]
    assert (agent.state, agent.restarts) == ("no gateway", 0)
    assert "does not answer" in agent.trouble
    assert browsers(fleet, ("chromium", "chrome")) == []
    assert end(fleet) == []


def test_a_second_fleet_on_the_same_state_joins_with_agents_of_its_own(
    start: Start, tmp_path: Path
) -> None:
    place = Place.at(tmp_path / "fleet")
    first = start("--browser", "chromium=1")
    eventually(lambda: bool(agents(tmp_path)), "a status", PATIENCE_S)
    second = start("--browser", "chromium=2")
    eventually(lambda: joined(place) == ["chromium-1", "chromium-2"], "it joins", PATIENCE_S)
    assert first.poll() is None
    assert [agent.agent for agent in agents(tmp_path).values()] == ["chromium-1"]
    assert end(second) == end(first) == []


def joined(place: Place) -> list[str]:
    status = read_status(place.fleet_of(2))
    return [] if status is None else [agent.agent for agent in status.agents]


def test_a_browser_that_is_not_installed_is_named_with_its_package(tmp_path: Path) -> None:
    said = subprocess.run(
        (sys.executable, "-m", "cli", "fleet", "--browser", "firefox"),
        env={**os.environ, "PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert said.returncode == 1
    assert "apt-get install firefox-esr" in said.stderr
