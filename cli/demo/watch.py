"""The demo's steps with their limits; steps 2 to 4 follow one job to a confirmed winner."""

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from cli.gateway_client import GatewayClient
from cli.stack.supervisor import Stack
from cli.terminal import note
from cli.tune import Until, winners_of
from kernelzoo.errors import StackError
from services.gateway.wire.jobs import Job
from services.gateway.wire.zoo import ZooEntry
from workers.fleet.status import FleetStatus, read_status


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoStep:
    """`log` is the process to ask. `lacking` completes: … within `limit_s`."""

    number: int
    what: str
    limit_s: float
    log: str
    lacking: str


START = DemoStep(number=1, what="the stack starts", limit_s=60, log="gateway", lacking="not ready")
COMPILE = DemoStep(
    number=2,
    what="workers compile",
    limit_s=60,
    log="compile",
    lacking="not all candidates compiled",
)
MEASURE = DemoStep(
    number=3, what="agents measure", limit_s=30, log="fleet", lacking="no measurement"
)
VOTE = DemoStep(
    number=4,
    what="votes confirm a winner",
    limit_s=180,
    log="aggregate",
    lacking="no confirmed zoo entry",
)
TUNE = DemoStep(
    number=5,
    what="agents tune a whole network",
    limit_s=60,
    log="compile",
    lacking="no kernel for each of its calls",
)
PAGE = DemoStep(
    number=6,
    what="a new page gets the winners",
    limit_s=60,
    log="page",
    lacking="no result from the page",
)
NETWORK = DemoStep(
    number=7,
    what="the page runs the network",
    limit_s=60,
    log="page",
    lacking="no result from the page",
)
STEPS = (START, COMPILE, MEASURE, VOTE, TUNE, PAGE, NETWORK)


class DemoFailed(StackError):
    """The message names the step and the log to read."""

    @classmethod
    def at(cls, step: DemoStep, why: str, log: Path) -> Self:
        return cls(f"demo failed at step {step.number} ({step.what}): {why}; read {log}")


def busy_remark(load: float, cores: int) -> str:
    """Says that other programs delay and blur what agents time, '' where they do not. `load` is the
    number of programs that want a core, the demo's own among them."""
    if load <= BUSY * cores:
        return ""
    return (
        f". {load:.0f} programs want the {cores} cores of this machine, so that agents wait and "
        "their times differ: run the demo when it is quiet"
    )


BUSY = 6
"""Programs for each core; five agents with their browsers are fewer."""


def too_late(step: DemoStep) -> str:
    return f"{step.lacking} within {step.limit_s:g} s"


def outstanding(job: Job) -> DemoStep:
    """The first step between registration and vote that the job has not been through."""
    if job.candidates == 0 or job.compiled + job.failed < job.candidates:
        return COMPILE
    if job.measurements == 0:
        return MEASURE
    return VOTE


def hopeless(job: Job) -> str | None:
    """Returns why waiting cannot help, or None where it can."""
    if job.state == "failed":
        return f"the job failed: {job.detail}"
    if job.candidates > 0 and job.failed == job.candidates:
        return f"all {job.candidates} candidates failed to compile"
    return None


POLL_S = 0.25
# Once a winner is confirmed, agents that are not through yet may still overturn it.
SETTLE_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """A sight is what is known at one moment. `elapsed_s` counts from when the workload was
    registered."""

    job: Job
    fleet: FleetStatus | None
    winners: tuple[ZooEntry, ...]
    elapsed_s: float

    @property
    def settled(self) -> bool:
        """Nothing that was measured contends with what is served."""
        return bool(self.winners) and all(winner.final for winner in self.winners)


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisteredJob:
    """A job, and the monotonic time at which its workload was registered."""

    job: Job
    at_s: float


def watch(
    stack: Stack, gateway: GatewayClient, registered: RegisteredJob, show: Callable[[Sight], None]
) -> Sight:
    """Returns with a confirmed winner. Raises DemoFailed at the step that does not happen."""
    confirmed_s: float | None = None
    deadline = _Deadline()
    for sight in _sights(stack, gateway, registered):
        show(sight)
        if sight.winners:
            confirmed_s = sight.elapsed_s if confirmed_s is None else confirmed_s
            if sight.settled or sight.elapsed_s - confirmed_s > SETTLE_S:
                return sight
            continue
        step = outstanding(sight.job)
        why = hopeless(sight.job) or deadline.missed(sight.job, step, sight.elapsed_s)
        if why is not None:
            raise DemoFailed.at(step, why, stack.log(step.log))
    raise DemoFailed.at(VOTE, "the watch ended", stack.log(VOTE.log))


class _Deadline:
    """Each step of a job has its own time, from when it is the outstanding one."""

    def __init__(self) -> None:
        self._began_s: dict[tuple[int, int], float] = {}

    def missed(self, job: Job, step: DemoStep, elapsed_s: float) -> str | None:
        began_s = self._began_s.setdefault((job.job, step.number), elapsed_s)
        return too_late(step) if elapsed_s - began_s > step.limit_s else None


def _sights(stack: Stack, gateway: GatewayClient, registered: RegisteredJob) -> Iterator[Sight]:
    """Yields what is seen of the newest job: that of the agents' GPU model, once one of them has
    asked for work.

    A gateway that is being restarted leaves the last view of it standing.
    """
    job = registered.job
    winners: tuple[ZooEntry, ...] = ()
    while True:
        for sentence in stack.tend():
            note(sentence)
        with suppress(StackError):
            *_, job = gateway.jobs(job.workload, job.target)
            entries = gateway.entries(job.workload)
            winners = winners_of(job.workload, (job.target,), entries, Until.FINAL)
        yield Sight(
            job=job,
            fleet=read_status(stack.place.fleet),
            winners=winners,
            elapsed_s=time.monotonic() - registered.at_s,
        )
        time.sleep(POLL_S)
