"""How fast the gateway answers for a warm zoo: manifests, from one core, over the real stack.

The gateway is held to one core and the load to another. The manifest is of a set of one workload
whose candidates are compiled for both targets; which kernels it names makes no difference to what
it costs.
"""

import asyncio
import os
import tempfile
import time
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote, urlsplit

import psutil

from bench.busy import Usage
from bench.load import Load, Target, flat_out, steady
from bench.options import parser, run
from bench.report import CannotMeasure, Cell, Claim, Report, machine
from bench.samples import percentile
from bench.workloads import PAPER
from kernelzoo.cli.gateway_client import GatewayClient
from kernelzoo.cli.stack.place import Place
from kernelzoo.cli.stack.plan import StackOptions
from kernelzoo.cli.stack.ports import LOOPBACK, free_port
from kernelzoo.cli.stack.supervisor import Stack, running
from kernelzoo.domain.target import TargetKind
from kernelzoo.errors import StackError
from services.gateway.wire.jobs import Job

WORKLOAD = PAPER[0].workload
KINDS = (TargetKind.WASM, TargetKind.WEBGPU)
DEVICE_CLASSES = (
    "0123456789abcdef:r1-1:wasm+relaxed-simd+simd128",
    "0123456789abcdef:r101-101:webgpu+binding-256m+subgroups+workgroup-memory-32k",
)
"""Of one device, so that the manifest holds the kernels of both targets."""
PER_SECOND = 1000
SECONDS = 10.0
FLAT_OUT_REQUESTS = 20_000
P50_MS, P99_MS = 2.0, 10.0
COMPILED_WITHIN_S = 60.0


def main() -> None:
    options = parser("Latency and rate of zoo manifests, one gateway process on one core.")
    options.add_argument("--seconds", type=float, default=SECONDS)
    run(options, measure)


def measure(options: Namespace) -> Report:
    with _stack() as stack:
        target = _warm_manifest(stack)
        described = machine(gateway_on_core=_apart(stack))
        before = Usage.now()
        rows = [
            _row("flat out", asyncio.run(flat_out(target, FLAT_OUT_REQUESTS))),
            _row(f"{PER_SECOND}/s", asyncio.run(steady(target, PER_SECOND, options.seconds))),
        ]
        described["others_busy"] = Usage.now().others_since(before)
    return Report(name="manifest", machine=described, rows=rows, claims=_claims(*rows))


@contextmanager
def _stack() -> Iterator[Stack]:
    """In a directory that is removed with its data."""
    options = StackOptions(host=LOOPBACK, port=free_port(), redis_port=free_port())
    with tempfile.TemporaryDirectory() as folder:
        try:
            with running(Place.at(Path(folder)), options) as stack:
                yield stack
        except StackError as error:
            raise CannotMeasure(str(error)) from error


def _warm_manifest(stack: Stack) -> Target:
    """Waits until all candidates are compiled, so that nothing else is going on."""
    with GatewayClient(url=stack.url, operator_key=stack.keys.operator) as gateway:
        for kind in KINDS:
            _await_compiled(gateway, gateway.register(WORKLOAD, kind))
        (entry,) = gateway.manifest(WORKLOAD.key, *DEVICE_CLASSES).entries
        assert entry.wasm is not None
        assert entry.webgpu is not None
    address = urlsplit(stack.url)
    classes = "/".join(quote(each, safe=":+") for each in DEVICE_CLASSES)
    path = f"/v1/zoo/{quote(WORKLOAD.key, safe=':')}/{classes}"
    return Target(host=str(address.hostname), port=int(address.port or 80), path=path)


def _await_compiled(gateway: GatewayClient, job: Job) -> None:
    deadline_s = time.monotonic() + COMPILED_WITHIN_S
    while job.candidates == 0 or job.compiled + job.failed < job.candidates:
        if time.monotonic() > deadline_s:
            raise CannotMeasure(f"{job.compiled} of {job.candidates} candidates were compiled")
        time.sleep(0.2)
        job = gateway.job(job.job)


def _apart(stack: Stack) -> int:
    """Holds the gateway to the last core and this process to the others, if there are any."""
    *others, last = sorted(os.sched_getaffinity(0))
    gateway = psutil.Process(stack.children["gateway"].process.pid)
    for process in (gateway, *gateway.children(recursive=True)):
        process.cpu_affinity([last])
    os.sched_setaffinity(0, others or [last])
    return last


def _row(what: str, load: Load) -> dict[str, Cell]:
    """`p50_ms` and `p99_ms` count from when a request was due, the others from its sending."""
    return {
        "load": what,
        "requests": len(load.sent_ms),
        "per_second": load.per_second,
        "p50_ms": percentile(load.due_ms, 50),
        "p99_ms": percentile(load.due_ms, 99),
        "sent_p50_ms": percentile(load.sent_ms, 50),
        "sent_p99_ms": percentile(load.sent_ms, 99),
    }


def _claims(flat_out_row: dict[str, Cell], steady_row: dict[str, Cell]) -> list[Claim]:
    rate, p50_ms, p99_ms = (
        float(row[name] or 0)
        for row, name in (
            (flat_out_row, "per_second"),
            (steady_row, "p50_ms"),
            (steady_row, "p99_ms"),
        )
    )
    return [
        Claim.at_least("manifests of one core", rate, "per second", PER_SECOND),
        Claim.at_most(f"p50 at {PER_SECOND} per second", p50_ms, "ms", P50_MS),
        Claim.at_most(f"p99 at {PER_SECOND} per second", p99_ms, "ms", P99_MS),
    ]


if __name__ == "__main__":
    main()
