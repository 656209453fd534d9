"""The demo's steps: what each one is, how long it may take, and whose log tells why it did not."""

from dataclasses import dataclass
from pathlib import Path
from typing import Self

from kernelzoo.errors import StackError
from services.gateway.wire.jobs import Job


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """`log` is the process to ask. `lacking` completes: … within `limit_s`."""

    number: int
    what: str
    limit_s: float
    log: str
    lacking: str


START = Step(number=1, what="the stack starts", limit_s=60, log="gateway", lacking="not ready")
COMPILE = Step(
    number=2,
    what="workers compile",
    limit_s=60,
    log="compile",
    lacking="not all candidates compiled",
)
MEASURE = Step(number=3, what="agents measure", limit_s=30, log="fleet", lacking="no measurement")
VOTE = Step(
    number=4,
    what="votes confirm a winner",
    limit_s=180,
    log="aggregate",
    lacking="no confirmed zoo entry",
)
PAGE = Step(
    number=5,
    what="a new page gets the winner",
    limit_s=60,
    log="page",
    lacking="no result from the page",
)
STEPS = (START, COMPILE, MEASURE, VOTE, PAGE)


class DemoFailed(StackError):
    """The message names the step and the log to read."""

    @classmethod
    def at(cls, step: Step, why: str, log: Path) -> Self:
        return cls(f"demo failed at step {step.number} ({step.what}): {why}; read {log}")


def too_late(step: Step) -> str:
    return f"{step.lacking} within {step.limit_s:g} s"


def outstanding(job: Job) -> Step:
    """The first step between registration and vote that the job has not been through."""
    if job.candidates == 0 or job.compiled + job.failed < job.candidates:
        return COMPILE
    if job.measurements == 0:
        return MEASURE
    return VOTE


def hopeless(job: Job) -> str | None:
    """Why waiting cannot help, if it cannot."""
    if job.state == "failed":
        return f"the job failed: {job.detail}"
    if job.candidates > 0 and job.failed == job.candidates:
        return f"all {job.candidates} candidates failed to compile"
    return None
