"""The whole stack as `kernelzoo up` runs it, with an empty zoo."""

import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from bench.report import CannotMeasure
from cli.gateway_client import GatewayClient
from cli.stack.place import Place
from cli.stack.plan import StackOptions
from cli.stack.ports import LOOPBACK, free_port
from cli.stack.processes import Environment, descendants
from cli.stack.supervisor import Stack, running
from kernelzoo.errors import StackError
from services.gateway.wire.jobs import Job

COMPILED_WITHIN_S = 60.0


@contextmanager
def fresh_stack(overrides: Environment = ()) -> Iterator[Stack]:
    """Runs a stack in a directory that is removed with its data. Raises CannotMeasure."""
    options = StackOptions(
        host=LOOPBACK, port=free_port(), redis_port=free_port(), overrides=overrides
    )
    with tempfile.TemporaryDirectory() as folder:
        try:
            with running(Place.at(Path(folder)), options) as stack:
                yield stack
        except StackError as error:
            raise CannotMeasure(str(error)) from error


def await_compiled(gateway: GatewayClient, job: Job) -> Job:
    """Raises CannotMeasure where a job's space is not compiled in time."""
    deadline_s = time.monotonic() + COMPILED_WITHIN_S
    while job.candidates == 0 or job.compiled + job.failed < job.candidates:
        if time.monotonic() > deadline_s:
            raise CannotMeasure(f"{job.compiled} of {job.candidates} candidates were compiled")
        time.sleep(0.2)
        job = gateway.job(job.job)
    return job


def gateway_apart(stack: Stack) -> int:
    """Holds the gateway to the last core, and this process and the rest of the stack to the others,
    if there are any.
    """
    *others, last = sorted(os.sched_getaffinity(0))
    gateway = gateway_processes(stack)
    for process in descendants():
        process.cpu_affinity([last] if process in gateway else others or [last])
    os.sched_setaffinity(0, others or [last])
    return last


def gateway_processes(stack: Stack) -> tuple[psutil.Process, ...]:
    gateway = psutil.Process(stack.children["gateway"].process.pid)
    return (gateway, *gateway.children(recursive=True))


def gateway_used_s(stack: Stack) -> float:
    """Processor time of the gateway so far."""
    times = (process.cpu_times() for process in gateway_processes(stack))
    return sum(each.user + each.system for each in times)
