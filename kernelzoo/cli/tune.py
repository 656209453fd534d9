"""`kernelzoo tune`: have a workload tuned by the agents of a running stack."""

import time
from dataclasses import dataclass
from typing import Annotated

import typer

from kernelzoo.cli.figures import number, progress, share
from kernelzoo.cli.gateway_client import GatewayClient
from kernelzoo.cli.live import live_display
from kernelzoo.cli.options import (
    STATE,
    OperatorArgument,
    ShapeArgument,
    StateOption,
    TargetOption,
    UrlOption,
)
from kernelzoo.cli.reach import reach
from kernelzoo.cli.terminal import out
from kernelzoo.cli.workload import parse_workload
from kernelzoo.domain.target import parse_kind
from kernelzoo.domain.zoo import EntryState
from kernelzoo.errors import StackError
from services.gateway.wire.jobs import Job
from services.gateway.wire.zoo import ZooEntry

POLL_S = 0.5
IDLE_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long to wait in all, and for the next sign of progress."""

    timeout_s: float
    idle_s: float = IDLE_S


def tune(
    operator: OperatorArgument,
    shape: ShapeArgument = None,
    target: TargetOption = "wasm",
    wait: Annotated[bool, typer.Option(help="Wait for a confirmed winner.")] = True,
    timeout: Annotated[float, typer.Option(min=1, help="Seconds to wait at most.")] = 600,
    state: StateOption = STATE,
    url: UrlOption = None,
) -> None:
    """Register a workload and follow its tuning until a winner is confirmed."""
    workload, kind = parse_workload(operator, shape), parse_kind(target)
    with reach(state, url) as gateway:
        job = gateway.register(workload, kind)
        out.print(f"job {job.job}: {job.workload} for {job.kind}")
        if wait:
            for winner in follow(gateway, job, Patience(timeout_s=timeout)):
                out.print(_sentence(winner))


def follow(gateway: GatewayClient, job: Job, patience: Patience) -> tuple[ZooEntry, ...]:
    """The confirmed winners. Raises StackError when there is none in time."""
    started_s = changed_s = time.monotonic()
    with live_display() as show:
        while not (winners := winners_of(job, gateway.entries())):
            now_s = time.monotonic()
            if now_s - started_s > patience.timeout_s or now_s - changed_s > patience.idle_s:
                raise StackError(why_waiting(job, gateway.url))
            time.sleep(POLL_S)
            before, job = job, gateway.job(job.job)
            changed_s = now_s if job != before else changed_s
            show(progress(job), None)
    return winners


def winners_of(job: Job, entries: tuple[ZooEntry, ...]) -> tuple[ZooEntry, ...]:
    return tuple(
        entry
        for entry in entries
        if entry.workload == job.workload
        and entry.kind is job.kind
        and entry.state is EntryState.CONFIRMED
    )


def why_waiting(job: Job, url: str) -> str:
    """What is missing to a winner, and what to do about it."""
    if job.detail:
        return f"job {job.job} has stopped: {job.detail}"
    if job.candidates == 0 or job.compiled == 0:
        return f"job {job.job} has no compiled candidate yet; read the log of the compile worker"
    if job.measurements == 0:
        return (
            f"no agent has measured {job.workload} yet; open {url}/agent in a browser "
            "or run `kernelzoo fleet --agents 5`"
        )
    return (
        f"no winner is confirmed yet (ballots: {job.ballots}, agents: {job.agents}); "
        "a quorum needs more agents, run `kernelzoo fleet --agents 5`"
    )


def _sentence(winner: ZooEntry) -> str:
    return (
        f"confirmed for {winner.device_class}: {winner.candidate[:12]}, "
        f"{number(winner.gflops, 'GFLOP/s')}, {share(winner)}"
    )
