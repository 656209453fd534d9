"""A network at a real gateway, whose compiler shares the machine with the pages that are timed."""

from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import psutil

from bench.models.files import NetworkFiles
from cli.gateway_client import GatewayClient
from cli.models.importing import imported
from cli.models.sending import send
from cli.stack.supervisor import Stack
from kernelzoo.domain.target import TargetKind

LAST = 19
"""The niceness of what runs where nobody else wants to."""
IDLE_GROUP = Path("/sys/fs/cgroup/cpu/kernelzoo-bench")
"""Processes of this group give their core up at once. A process of the least niceness keeps it
until the next tick, four milliseconds later on most machines."""


def hold_back_compiler(stack: Stack) -> None:
    """It yields wherever a page wants a core, as a visitor has its own for itself. The rest of the
    zoo does not: many pages leave no core idle, and nobody would answer them."""
    _hold_back(stack.children["compile"].process.pid)


def hold_back(stack: Stack) -> None:
    """The whole stack yields: a visitor's device runs no zoo."""
    for pid in (stack.postgres.pid, *(each.process.pid for each in stack.children.values())):
        _hold_back(pid)
        _idle(pid)


def _idle(pid: int) -> None:
    """Puts a process into the group, where control groups are of version 1 and may be made."""
    with suppress(OSError):
        IDLE_GROUP.mkdir(exist_ok=True)
        (IDLE_GROUP / "cpu.idle").write_text("1")
        leader = psutil.Process(pid)
        for process in (leader, *leader.children(recursive=True)):
            (IDLE_GROUP / "cgroup.procs").write_text(f"{process.pid}")


def _hold_back(pid: int) -> None:
    leader = psutil.Process(pid)
    for process in (leader, *leader.children(recursive=True)):
        process.nice(LAST)
        # Linux groups processes by session, and niceness counts within a group alone: in a session
        # of its own the compiler had as much of the cores as the browser.
        group = Path(f"/proc/{process.pid}/autogroup")
        if group.exists():
            group.write_text(f"{LAST}\n")


def add(
    gateway: GatewayClient, network: NetworkFiles, target: TargetKind = TargetKind.WASM
) -> None:
    """Adds a network as `kernelzoo models add --target` does."""

    def silent(line: str) -> None:
        pass

    case, onnx = network.case, network.onnx
    with TemporaryDirectory() as folder:
        weights = Path(folder) / "weights.bin"
        model = imported(onnx, case.name, (case.dimensions,), weights, silent)
        send(
            gateway,
            model,
            source=onnx.name,
            replace=False,
            weights_url=None,
            told=silent,
            targets=(target,),
        )
