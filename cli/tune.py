"""`kernelzoo tune`: have a workload tuned by the agents of a running stack."""

import time
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from cli.figures import progress
from cli.finding import KernelFinding, finding, sentences
from cli.gateway_client import GatewayClient, reach
from cli.listing import print_json
from cli.models.tuning import ModelPatience, follow_model, pictures
from cli.options import (
    STATE,
    JsonOption,
    OptionalOperator,
    ShapeArgument,
    StateOption,
    TargetsOption,
    UrlOption,
    parse_targets,
)
from cli.stack.signals import INTERRUPTED, interruptible
from cli.terminal import live_display, note, notes, out
from cli.workload import parse_workload
from kernelzoo.domain.target import TargetKind
from kernelzoo.domain.zoo import EntryState
from kernelzoo.errors import InvalidInput, StackError
from services.gateway.wire.jobs import Job
from services.gateway.wire.zoo import ZooEntry

POLL_S = 0.5
IDLE_S = 60.0


class Until(StrEnum):
    """CONFIRMED: a quorum has voted. FINAL: and nothing that was measured contends."""

    CONFIRMED = "confirmed"
    FINAL = "final"


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitLimits:
    """Limits say what to wait for, how long in all, and for the next sign of progress."""

    until: Until = Until.FINAL
    timeout_s: float
    idle_s: float


def tune(
    operator: OptionalOperator = None,
    shape: ShapeArgument = None,
    model: Annotated[
        str | None, typer.Option("--model", help="Follow the tuning of a whole model instead.")
    ] = None,
    target: TargetsOption = None,
    wait: Annotated[bool, typer.Option(help="Wait for the winner.")] = True,
    until: Annotated[
        Until,
        typer.Option(help="final: all is measured, and nothing contends; or the first quorum."),
    ] = Until.FINAL,
    timeout: Annotated[float, typer.Option(min=1, help="Seconds to wait at most.")] = 600,
    idle: Annotated[
        float, typer.Option(min=1, help="Seconds to wait at most while nothing advances.")
    ] = IDLE_S,
    as_json: JsonOption = False,
    state: StateOption = STATE,
    url: UrlOption = None,
) -> None:
    """Register a workload and follow its tuning until the vote of each target is final."""
    if model is not None and operator is None:
        patience = ModelPatience(timeout_s=timeout, idle_s=idle)
        _tune_model(model, patience, as_json=as_json, state=state, url=url)
        return
    if operator is None or model is not None:
        raise InvalidInput("name a workload, as in `kernelzoo tune matmul 384x768x768`, or --model")
    workload, targets = parse_workload(operator, shape), parse_targets(target)
    with reach(state, url) as gateway:
        jobs = [gateway.register(workload, each) for each in targets]
        for job in jobs:
            note(f"job {job.job}: {job.workload} for {job.target}")
        if not wait:
            if as_json:
                print_json(jobs)
            return
        try:
            with interruptible():
                limits = WaitLimits(until=until, timeout_s=timeout, idle_s=idle)
                winners = follow(gateway, workload.key, targets, limits)
        except KeyboardInterrupt:
            note(_goes_on(jobs))
            raise typer.Exit(INTERRUPTED) from None
        _tell(findings(gateway, winners, jobs[0].flops), as_json=as_json)


def _tune_model(
    name: str, patience: ModelPatience, *, as_json: bool, state: Path, url: str | None
) -> None:
    """Its workloads were registered with it."""
    with reach(state, url) as gateway:
        try:
            with interruptible():
                found = follow_model(gateway, name, patience)
                fell = "" if as_json else pictures(gateway, name, found)
        except KeyboardInterrupt:
            note(f"agents go on without this command; `kernelzoo models show {name}` tells how far")
            raise typer.Exit(INTERRUPTED) from None
    if as_json:
        print_json(found)
        return
    for each in found:
        out.print(each.line, markup=False)
    out.print(fell, markup=False)


def _goes_on(jobs: list[Job]) -> str:
    stop = " ".join(f"`kernelzoo jobs cancel {job.job}`" for job in jobs)
    return f"the job goes on without this command; {stop} stops it, `kernelzoo zoo list` shows it"


def _tell(found: list[KernelFinding], *, as_json: bool) -> None:
    if as_json:
        print_json(found)
        return
    for each in found:
        for sentence in sentences(each):
            out.print(sentence)


def findings(
    gateway: GatewayClient, winners: tuple[ZooEntry, ...], flops: int
) -> list[KernelFinding]:
    """Adds to the winners what was measured, where this gateway tells it us: the operator alone."""
    keys = {winner.workload for winner in winners} if gateway.operator_key else set()
    measured = {
        results.device_class: results.trials for key in keys for results in gateway.results(key)
    }
    return [finding(each, measured.get(each.device_class, ()), flops) for each in winners]


def follow(
    gateway: GatewayClient, workload_key: str, targets: tuple[TargetKind, ...], patience: WaitLimits
) -> tuple[ZooEntry, ...]:
    """The winners, of each target one at least that is what `patience` waits for. Raises StackError
    when they are not there in time.
    """
    started_s = changed_s = time.monotonic()
    seen: tuple[object, ...] = ()
    with live_display(notes) as show:
        while True:
            entries = gateway.entries(workload_key)
            awaited = winners_of(workload_key, targets, entries, patience.until)
            lacking = set(targets) - {winner.target for winner in awaited}
            entries = winners_of(workload_key, targets, entries)
            if not lacking:
                return entries
            jobs = tuple(job for each in targets for job in gateway.jobs(workload_key, each))
            now_s = time.monotonic()
            before, seen = seen, (jobs, entries)
            changed_s = now_s if seen != before else changed_s
            waited_s, idle_s = now_s - started_s, now_s - changed_s
            if waited_s > patience.timeout_s or idle_s > patience.idle_s:
                newest = [job for job in jobs if job.target in lacking][-1]
                raise StackError(
                    f"{why_waiting(newest, entries, gateway.url)} (waited for {waited_s:.0f} s; "
                    f"nothing advanced in the last {idle_s:.0f})"
                )
            show("\n".join(f"{_space(job)}{progress(job)}" for job in jobs), None)
            time.sleep(POLL_S)


def winners_of(
    workload_key: str,
    targets: tuple[TargetKind, ...],
    entries: tuple[ZooEntry, ...],
    until: Until = Until.CONFIRMED,
) -> tuple[ZooEntry, ...]:
    return tuple(
        entry
        for entry in entries
        if entry.workload == workload_key
        and entry.target in targets
        and entry.state is EntryState.CONFIRMED
        and (entry.final or until is Until.CONFIRMED)
    )


def _space(job: Job) -> str:
    return f"{job.target} on {job.space}: " if job.space else f"{job.target}: "


def why_waiting(job: Job, winners: tuple[ZooEntry, ...], url: str) -> str:
    """Says what is missing to a vote's end, and what to do about it. `winners` are confirmed."""
    more = f"run `kernelzoo fleet --agents 5 --target {job.target}`"
    if job.state == "cancelled":
        return f"job {job.job} was cancelled; `kernelzoo tune {job.workload}` resumes it"
    if job.detail:
        return f"job {job.job} has stopped: {job.detail}"
    if job.candidates == 0 or job.compiled == 0:
        return f"job {job.job} has no compiled candidate yet; read the log of the compile worker"
    if job.skipped_by:
        return (
            f"{', '.join(job.skipped_by)} lost two devices at {job.workload} and is lent no more "
            "of it for a week; the fleet's log says why they were ended, and "
            f"`kernelzoo jobs unskip {job.workload} CLASS` lends it again"
        )
    if job.measurements == 0:
        return (
            f"no agent has measured {job.workload} for {job.target} yet; "
            f"open {url}/agent in a browser or {more}"
        )
    if served := [winner for winner in winners if winner.target is job.target]:
        contending = sum(len(winner.contenders) for winner in served)
        faster = f"too few have measured {contending} that look faster"
        why = faster if contending else "not all is measured, or most find another faster"
        return (
            f"what is served of {job.workload} for {job.target} is confirmed and not final: {why}; "
            f"{more}, or take it as it is with --until confirmed"
        )
    return (
        f"no winner is confirmed yet (ballots: {job.ballots}, agents: {job.agents}); "
        f"a quorum needs more agents, {more}"
    )
