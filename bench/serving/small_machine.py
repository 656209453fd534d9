"""WebGPU tuning of every operator on a machine of 4 GB without a GPU: what it takes, who survives.

This process and all that it starts, PostgreSQL and browsers with them, are put into a cgroup with
that much memory and no swap beyond it, as root. Two agents tune one workload of each operator on
Chromium's software adapter. What SwiftShader cannot compile costs failures or ends a browser; it
must end nothing else.
"""

import os
import time
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from bench.options import parser, run
from bench.report import CannotMeasure, Cell, Claim, Report, machine
from bench.serving.fresh_stack import fresh_stack
from cli.gateway_client import GatewayClient
from cli.stack.plan import FleetPlan, plan_fleet
from cli.stack.supervisor import Stack
from cli.terminal import note
from kernelzoo.domain.operators import OPERATORS, Operator
from kernelzoo.domain.operators.examples import example_extents
from kernelzoo.domain.target import TargetKind
from kernelzoo.domain.workload import Workload
from services.gateway.wire.jobs import Job
from workers.fleet.gpu import GpuChoice
from workers.fleet.memory import MIB, SETTING, default_fleet_mib
from workers.fleet.status import FleetStatus, read_status

LIMIT_MIB = 4096
MINUTES = 10.0
AGENTS = 2
LOOK_S = 2.0
V1 = Path("/sys/fs/cgroup/memory")
V2 = Path("/sys/fs/cgroup")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cgroup:
    """Names of files in `folder`, which differ between the two versions of the interface."""

    folder: Path
    limit: str
    peak: str
    events: str

    @property
    def kills(self) -> int:
        """By the kernel, as the limit was reached and nothing could be given back."""
        events = dict(
            line.split() for line in Path(self.folder, self.events).read_text().splitlines()
        )
        return int(events["oom_kill"])

    @property
    def peak_mib(self) -> float:
        """Files that the kernel keeps in memory are counted, and given back when it is short."""
        return int(Path(self.folder, self.peak).read_text()) / MIB


def main() -> None:
    options = parser("WebGPU tuning of every operator within the memory of a small machine.")
    options.add_argument("--minutes", type=float, default=MINUTES)
    options.add_argument("--memory-mib", type=int, default=LIMIT_MIB, help="0: no limit")
    options.add_argument("--only", nargs="+", choices=list(OPERATORS), metavar="OPERATOR")
    run(options, measure, tiny=("--minutes", "0.25", "--memory-mib", "0", "--only", "relu"))


def measure(options: Namespace) -> Report:
    chosen = [OPERATORS[name] for name in options.only or OPERATORS]
    with limited(options.memory_mib) as group, fresh_stack() as stack:
        started = {name: child.process.pid for name, child in stack.children.items()}
        with GatewayClient(url=stack.url, operator_key=stack.keys.operator) as gateway:
            for operator in chosen:
                gateway.register(_workload(operator), TargetKind.WEBGPU)
            fleet = FleetPlan.chromium(AGENTS, (TargetKind.WEBGPU,), GpuChoice.SOFTWARE)
            stack.launch(plan_fleet(stack.place, stack.keys, stack.url, fleet))
            _watch(stack, options.minutes * 60)
            rows = [_row(gateway, operator) for operator in chosen]
        told = read_status(stack.place.fleet)
        lived = sum(stack.children[name].process.pid == pid for name, pid in started.items())
        described = machine(agents=AGENTS, minutes=options.minutes, **_memory(group, told))
        claims = [
            Claim.at_least("processes of the stack that lived", lived, "", len(started)),
            Claim.at_least("operators measured", _measured(rows), "", len(rows)),
        ]
        if group is not None:
            killed = Claim.at_most("processes killed for want of memory", group.kills, "", 0)
            claims.append(killed)
    return Report(name="small_machine", machine=described, rows=rows, claims=claims)


def _measured(rows: list[dict[str, Cell]]) -> int:
    return sum(bool(row["measured"]) for row in rows)


@contextmanager
def limited(memory_mib: int) -> Iterator[Cgroup | None]:
    """Raises CannotMeasure where no cgroup can be made."""
    if not memory_mib:
        yield None
        return
    group = _group()
    parent = group.folder.parent
    try:
        group.folder.mkdir()
        Path(group.folder, group.limit).write_text(str(memory_mib * MIB))
        Path(group.folder, "cgroup.procs").write_text(str(os.getpid()))
    except OSError as error:
        raise CannotMeasure(
            f"no cgroup of memory can be made, which takes root: {error}"
        ) from error
    # A machine of that size has it by default: programs see the whole memory in a group.
    os.environ[SETTING] = str(default_fleet_mib(memory_mib * MIB))
    try:
        yield group
    finally:
        Path(parent, "cgroup.procs").write_text(str(os.getpid()))
        with suppress(OSError):
            group.folder.rmdir()


def _group() -> Cgroup:
    name = f"kernelzoo-{os.getpid()}"
    if (V1 / "memory.limit_in_bytes").exists():
        files = ("memory.limit_in_bytes", "memory.max_usage_in_bytes", "memory.oom_control")
        return Cgroup(folder=V1 / name, limit=files[0], peak=files[1], events=files[2])
    return Cgroup(folder=V2 / name, limit="memory.max", peak="memory.peak", events="memory.events")


def _workload(operator: Operator) -> Workload:
    return Workload.of(operator.name, example_extents(operator))


def _watch(stack: Stack, seconds: float) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        for sentence in stack.tend():
            note(sentence)
        time.sleep(LOOK_S)


def _row(gateway: GatewayClient, operator: Operator) -> dict[str, Cell]:
    """The row of the newest job: that of the GPU model that asked, once one has."""
    jobs: tuple[Job, ...] = gateway.jobs(_workload(operator).key, TargetKind.WEBGPU)
    job = jobs[-1]
    return {
        "operator": operator.name,
        "space": job.space,
        "candidates": job.candidates,
        "compiled": job.compiled,
        "measured": job.measurements,
        "skipped": len(job.skipped_by),
        "final": job.final,
    }


def _memory(group: Cgroup | None, told: FleetStatus | None) -> dict[str, Cell]:
    agents = told.agents if told else ()
    return {
        "peak_mib": group.peak_mib if group else None,
        "fleet_peak_mib": told.peak_memory_bytes / MIB if told else None,
        "browser_restarts": sum(agent.restarts for agent in agents),
        "failed_measurements": sum(agent.failed for agent in agents),
    }


if __name__ == "__main__":
    main()
