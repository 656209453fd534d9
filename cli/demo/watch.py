"""Steps 2 to 4: follows one job from registration to a confirmed winner."""

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass

from cli.demo.steps import VOTE, DemoFailed, Step, hopeless, outstanding, too_late
from cli.gateway_client import GatewayClient
from cli.stack.supervisor import Stack
from cli.terminal import note
from cli.tune import Until, winners_of
from kernelzoo.errors import StackError
from services.gateway.wire.jobs import Job
from services.gateway.wire.zoo import ZooEntry
from workers.fleet.status import FleetStatus, read_status

POLL_S = 0.25
# Once a winner is confirmed, agents that are not through yet may still overturn it.
SETTLE_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """What is known at one moment. `elapsed_s` counts from the start of the watch."""

    job: Job
    fleet: FleetStatus | None
    winners: tuple[ZooEntry, ...]
    elapsed_s: float

    @property
    def settled(self) -> bool:
        """Nothing that was measured contends with what is served."""
        return bool(self.winners) and all(winner.final for winner in self.winners)


def watch(stack: Stack, gateway: GatewayClient, job: Job, show: Callable[[Sight], None]) -> Sight:
    """Returns with a confirmed winner. Raises DemoFailed at the step that does not happen."""
    confirmed_s: float | None = None
    deadline = _Deadline()
    for sight in _sights(stack, gateway, job):
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

    def missed(self, job: Job, step: Step, elapsed_s: float) -> str | None:
        began_s = self._began_s.setdefault((job.job, step.number), elapsed_s)
        return too_late(step) if elapsed_s - began_s > step.limit_s else None


def _sights(stack: Stack, gateway: GatewayClient, job: Job) -> Iterator[Sight]:
    """Of the newest job: that of the agents' GPU model, once one of them has asked for work.

    A gateway that is being restarted leaves the last view of it standing.
    """
    started_s = time.monotonic()
    winners: tuple[ZooEntry, ...] = ()
    while True:
        for sentence in stack.tend():
            note(sentence)
        with suppress(StackError):
            *_, job = gateway.jobs(job.workload, job.kind)
            entries = gateway.entries()
            winners = winners_of(job.workload, (job.kind,), entries, Until.FINAL)
        yield Sight(
            job=job,
            fleet=read_status(stack.place.fleet),
            winners=winners,
            elapsed_s=time.monotonic() - started_s,
        )
        time.sleep(POLL_S)
