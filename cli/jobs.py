"""`kernelzoo jobs list|cancel|unskip`: what is being tuned, and how to stop it or let it go on."""

from typing import Annotated

import typer

from cli.figures import gflops, number
from cli.gateway_client import GatewayClient, reach
from cli.listing import Column, print_json, show_all
from cli.options import (
    STATE,
    JsonOption,
    StateOption,
    TargetsOption,
    UrlOption,
    parse_targets,
)
from cli.terminal import note, out
from kernelzoo.domain.device import DeviceClass
from kernelzoo.domain.target import MEASURED, TargetKind
from kernelzoo.domain.workload import workload_key
from kernelzoo.errors import InvalidInput
from services.gateway.wire.jobs import Job

app = typer.Typer(help="Tuning jobs.", no_args_is_help=True)

COLUMNS = (
    Column(heading="job", right=True),
    Column(heading="workload"),
    Column(heading="target"),
    Column(heading="state"),
    Column(heading="compiled", rank=3, right=True),
    Column(heading="measurements", rank=2, right=True),
    Column(heading="ballots", rank=4, right=True),
    Column(heading="best GFLOP/s", rank=1, right=True),
)


@app.command("list")
def list_jobs(
    as_json: JsonOption = False, state: StateOption = STATE, url: UrlOption = None
) -> None:
    """One line for each, the newest first."""
    with reach(state, url) as gateway:
        found = gateway.jobs()[::-1]
    show_all(
        found,
        COLUMNS,
        _row,
        none="nothing is being tuned; `kernelzoo tune matmul 384x768x768`",
        as_json=as_json,
    )


@app.command()
def cancel(
    job: Annotated[str, typer.Argument(help="Its number, or a workload key: all jobs of it.")],
    target: TargetsOption = None,
    as_json: JsonOption = False,
    state: StateOption = STATE,
    url: UrlOption = None,
) -> None:
    """Compile and lend nothing more of a job. What is served stays; `kernelzoo tune` resumes it."""
    targets = parse_targets(target) if target else MEASURED
    with reach(state, url) as gateway:
        cancelled = [gateway.cancel(number) for number in _numbers(gateway, job, targets)]
    if as_json:
        print_json(cancelled)
        return
    for each in cancelled:
        out.print(f"job {each.job} is cancelled: {each.workload} for {each.target}")
    note("agents may report what they hold; what is served stays; `kernelzoo tune` resumes it")


@app.command()
def unskip(
    key: Annotated[str, typer.Argument(help="A workload key.")],
    device_class: Annotated[str, typer.Argument(help="A device class, as `tune` names it.")],
    state: StateOption = STATE,
    url: UrlOption = None,
) -> None:
    """Lend a workload again to a class that lost two devices at it."""
    workload, wanted = workload_key(key), str(DeviceClass.parse(device_class))
    with reach(state, url) as gateway:
        if wanted not in {each for job in gateway.jobs(workload) for each in job.skipped_by}:
            raise InvalidInput(f"{wanted} is lent {workload} as others are; no loss holds it back")
        gateway.forget_lost_devices(workload, wanted)
    note(f"{workload} is lent to {wanted} again; two more losses within a week end that")


def _numbers(gateway: GatewayClient, job: str, targets: tuple[TargetKind, ...]) -> list[int]:
    if job.isdecimal():
        return [int(job)]
    key = workload_key(job)
    found = [each.job for each in gateway.jobs(key) if each.target in targets]
    if not found:
        raise InvalidInput(f"there is no job of {key}; `kernelzoo jobs list` names all")
    return found


def _row(job: Job) -> tuple[str, ...]:
    return (
        str(job.job),
        job.workload,
        f"{job.target} on {job.space}" if job.space else job.target,
        job.state,
        f"{job.compiled}/{job.candidates}",
        str(job.measurements),
        str(job.ballots),
        number(gflops(job.flops, job.best_ns)),
    )
