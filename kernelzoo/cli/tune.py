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
    TargetsOption,
    UrlOption,
    parse_targets,
)
from kernelzoo.cli.reach import reach
from kernelzoo.cli.terminal import out
from kernelzoo.cli.workload import parse_workload
from kernelzoo.domain.target import TargetKind
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
    target: TargetsOption = None,
    wait: Annotated[bool, typer.Option(help="Wait for a confirmed winner.")] = True,
    timeout: Annotated[float, typer.Option(min=1, help="Seconds to wait at most.")] = 600,
    state: StateOption = STATE,
    url: UrlOption = None,
) -> None:
    """Register a workload and follow its tuning until each target has a confirmed winner."""
    workload, kinds = parse_workload(operator, shape), parse_targets(target)
    with reach(state, url) as gateway:
        for kind in kinds:
            job = gateway.register(workload, kind)
            out.print(f"job {job.job}: {job.workload} for {job.kind}")
        if wait:
            for winner in follow(gateway, workload.key, kinds, Patience(timeout_s=timeout)):
                out.print(_sentence(winner))


def follow(
    gateway: GatewayClient, workload_key: str, kinds: tuple[TargetKind, ...], patience: Patience
) -> tuple[ZooEntry, ...]:
    """The confirmed winners, of each target one at least. Raises StackError when they are not
    there in time.
    """
    started_s = changed_s = time.monotonic()
    jobs: tuple[Job, ...] = ()
    with live_display() as show:
        while True:
            winners = winners_of(workload_key, kinds, gateway.entries())
            lacking = set(kinds) - {winner.kind for winner in winners}
            if not lacking:
                return winners
            before = jobs
            jobs = tuple(job for kind in kinds for job in gateway.jobs(workload_key, kind))
            now_s = time.monotonic()
            changed_s = now_s if jobs != before else changed_s
            if now_s - started_s > patience.timeout_s or now_s - changed_s > patience.idle_s:
                newest = [job for job in jobs if job.kind in lacking][-1]
                raise StackError(why_waiting(newest, gateway.url))
            show("\n".join(f"{_space(job)}{progress(job)}" for job in jobs), None)
            time.sleep(POLL_S)


def winners_of(
    workload_key: str, kinds: tuple[TargetKind, ...], entries: tuple[ZooEntry, ...]
) -> tuple[ZooEntry, ...]:
    return tuple(
        entry
        for entry in entries
        if entry.workload == workload_key
        and entry.kind in kinds
        and entry.state is EntryState.CONFIRMED
    )


def _space(job: Job) -> str:
    return f"{job.kind} on {job.space}: " if job.space else f"{job.kind}: "


def why_waiting(job: Job, url: str) -> str:
    """What is missing to a winner, and what to do about it."""
    more = f"run `kernelzoo fleet --agents 5 --target {job.kind}`"
    if job.detail:
        return f"job {job.job} has stopped: {job.detail}"
    if job.candidates == 0 or job.compiled == 0:
        return f"job {job.job} has no compiled candidate yet; read the log of the compile worker"
    if job.measurements == 0:
        return (
            f"no agent has measured {job.workload} for {job.kind} yet; "
            f"open {url}/agent in a browser or {more}"
        )
    return (
        f"no winner is confirmed yet (ballots: {job.ballots}, agents: {job.agents}); "
        f"a quorum needs more agents, {more}"
    )


def _sentence(winner: ZooEntry) -> str:
    return (
        f"confirmed for {winner.device_class}: {winner.candidate[:12]}, "
        f"{number(winner.gflops, 'GFLOP/s')}, {share(winner)}"
    )
