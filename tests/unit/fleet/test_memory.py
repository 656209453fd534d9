"""Browsers may take so much, and one that takes more is ended: real processes, small limits."""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import psutil
import pytest

from kernelzoo.errors import StackError
from workers.fleet.__main__ import parse
from workers.fleet.agent import _insist_on_gpu
from workers.fleet.browsers import Launch, PageLost, Tab
from workers.fleet.memory import (
    BROWSER_MIB,
    MIB,
    FleetMemory,
    browser_processes,
    default_fleet_mib,
    machine_bytes,
    taken_bytes,
)
from workers.fleet.snapshot import Snapshot

FIRST, SECOND = Path("/profiles/chromium-1"), Path("/profiles/chromium-2")
CHILD = (
    "import subprocess, sys; subprocess.run([sys.executable, '-c', "
    "\"import time; held = b'x' * (64 << 20); time.sleep(60)\"])"
)


def test_a_browser_that_takes_more_than_one_may_is_ended_with_a_sentence() -> None:
    memory = FleetMemory(fleet_bytes=8000 * MIB)
    assert memory.note(FIRST, BROWSER_MIB * MIB) is None
    why = memory.note(FIRST, (BROWSER_MIB + 1) * MIB)
    assert why == (
        "its browser took 2049 MiB, and may take 2048. It starts again with a new browser."
    )


def test_of_browsers_that_take_too_much_together_the_largest_is_ended() -> None:
    memory = FleetMemory(fleet_bytes=1000 * MIB)
    assert memory.note(FIRST, 700 * MIB) is None
    assert memory.note(SECOND, 400 * MIB) is None
    why = memory.note(FIRST, 701 * MIB)
    assert why is not None
    assert "all browsers took 1101 MiB, and may take 1000; its own took the most" in why
    assert "KERNELZOO_FLEET_MEMORY_MIB" in why
    memory.forget(FIRST)
    assert memory.note(SECOND, 500 * MIB) is None
    assert memory.peak_bytes == 1101 * MIB


def cgroups(root: Path, own: str, limits: dict[str, str]) -> Path:
    """A machine's files: `own` as /proc/self/cgroup has it, limits by path."""
    for path, text in {"proc/self/cgroup": own, **limits}.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(f"{text}\n")
    return root


V1_LINES = "12:pids:/x\n5:cpu,memory:/docker/abc/job\n0::/init.scope"


@pytest.mark.parametrize(
    ("own", "limits", "mib"),
    [
        # Version 2: a service of a user's session, whose limits stand above it.
        ("0::/user.slice/app.slice/zoo.service", {}, None),
        (
            "0::/user.slice/app.slice/zoo.service",
            {
                "sys/fs/cgroup/user.slice/app.slice/zoo.service/memory.max": "max",
                "sys/fs/cgroup/user.slice/app.slice/memory.max": str(300 * MIB),
                "sys/fs/cgroup/user.slice/memory.max": str(400 * MIB),
            },
            300,
        ),
        (
            "0::/user.slice/zoo.service",
            {
                "sys/fs/cgroup/user.slice/zoo.service/memory.max": str(500 * MIB),
                "sys/fs/cgroup/user.slice/memory.max": str(200 * MIB),
                # Of somebody else.
                "sys/fs/cgroup/other.slice/memory.max": str(100 * MIB),
            },
            200,
        ),
        # In a container with a namespace of its own, the root is the container's.
        ("0::/", {"sys/fs/cgroup/memory.max": str(400 * MIB)}, 400),
        # Version 1, with a namespace and without one: above the mount there is nothing to read.
        (
            V1_LINES,
            {"sys/fs/cgroup/memory/docker/abc/job/memory.limit_in_bytes": str(250 * MIB)},
            250,
        ),
        (V1_LINES, {"sys/fs/cgroup/memory/memory.limit_in_bytes": str(350 * MIB)}, 350),
        # What version 1 says where there is no limit.
        (V1_LINES, {"sys/fs/cgroup/memory/memory.limit_in_bytes": str((1 << 63) - 4096)}, None),
    ],
)
def test_the_machine_has_what_the_least_of_its_cgroups_leaves_it(
    tmp_path: Path, own: str, limits: dict[str, str], mib: int | None
) -> None:
    whole = psutil.virtual_memory().total
    assert machine_bytes(cgroups(tmp_path, own, limits)) == (whole if mib is None else mib * MIB)


def test_browsers_may_take_half_of_the_machine_which_may_have_no_cgroups(tmp_path: Path) -> None:
    assert default_fleet_mib(4096 * MIB) == 2048
    assert machine_bytes(tmp_path) == psutil.virtual_memory().total


@asynccontextmanager
async def greedy(launch: Launch) -> AsyncIterator[Tab]:
    """A process that names its profile, whose child takes 64 MiB, as a page that never answers."""
    command = (sys.executable, "-c", CHILD, f"--user-data-dir={launch.profile}")
    process = await asyncio.create_subprocess_exec(*command)

    class Silent:
        async def goto(self, url: str) -> None:
            raise AssertionError(url)

        async def evaluate(self, function: str, argument: object) -> object:
            await process.wait()
            raise PageLost(f"the browser has ended: {function} {argument}")

    try:
        yield Silent()
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()


def test_processes_of_a_browser_are_ended_together_and_the_agent_learns_why(tmp_path: Path) -> None:
    launch = Launch(profile=tmp_path / "chromium-1", gpu=None, sandbox=True)
    memory = FleetMemory(fleet_bytes=1000 * MIB, browser_bytes=48 * MIB)

    async def lost() -> str:
        with pytest.raises(PageLost) as caught:
            async with memory.limited(greedy, launch) as tab:
                await tab.evaluate("talk", None)
        return str(caught.value)

    assert "may take 48. It starts again with a new browser." in asyncio.run(lost())
    assert memory.peak_bytes > 48 * MIB
    assert list(browser_processes(launch.profile)) == []
    assert taken_bytes(()) == 0


def test_a_page_that_is_lost_for_another_reason_keeps_its_own(tmp_path: Path) -> None:
    launch = Launch(profile=tmp_path / "chromium-1", gpu=None, sandbox=True)

    async def lost() -> None:
        async with FleetMemory.of(None).limited(greedy, launch):
            raise PageLost("the page did not answer within 20 s")

    with pytest.raises(PageLost, match="did not answer within 20 s"):
        asyncio.run(lost())


def test_a_page_whose_gpu_is_stuck_is_opened_in_a_new_browser() -> None:
    events = [{"type": "idle"}, {"type": "stuck", "reason": "The driver does not answer."}]
    stuck = Snapshot.model_validate({"state": "measuring", "events": events})
    with pytest.raises(PageLost, match="The driver does not answer"):
        _insist_on_gpu(stuck)
    _insist_on_gpu(stuck.model_copy(update={"events": stuck.events[:1]}))


def test_the_limit_is_told_on_the_command_line_or_by_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told = ("--url", "http://127.0.0.1:8787/", "--state", "/s")
    assert parse(told, "key").memory_mib is None
    monkeypatch.setenv("KERNELZOO_FLEET_MEMORY_MIB", "3000")
    assert parse(told, "key").memory_mib == 3000
    assert parse((*told, "--memory-mib", "900"), "key").memory_mib == 900
    with pytest.raises(StackError, match="needs 512 MiB at least"):
        parse((*told, "--memory-mib", "100"), "key")
