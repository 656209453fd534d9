"""Measures how fast the gateway answers for a warm zoo: manifests, from one core, over the real
stack.

The gateway is held to one core and the load to another. The manifest is of a set of one workload
whose candidates are compiled for both targets; which kernels it names makes no difference to what
it costs.
"""

import asyncio
from argparse import Namespace
from collections.abc import Callable, Coroutine, Sequence
from http import HTTPStatus
from itertools import repeat
from typing import Any
from urllib.parse import quote

from bench.busy import CpuUsage
from bench.options import parser, run
from bench.report import Cell, Claim, Report, machine
from bench.samples import percentile
from bench.serving.fresh_stack import await_compiled, fresh_stack, gateway_apart, gateway_used_s
from bench.serving.load import OfferedLoad, Server, flat_out
from bench.serving.open_loop import Stream, steady
from bench.workloads import PAPER
from cli.gateway_client import GatewayClient
from cli.stack.supervisor import Stack
from cli.terminal import note
from kernelzoo.domain.target import TargetKind

WORKLOAD = PAPER[0].workload
TARGETS = (TargetKind.WASM, TargetKind.WEBGPU)
DEVICE_CLASSES = (
    "0123456789abcdef:r1-1:wasm+relaxed-simd+simd128",
    "0123456789abcdef:r101-101:webgpu+binding-256m+subgroups+workgroup-memory-32k",
)
"""Two classes of one device, so that the manifest holds the kernels of both targets."""
PER_SECOND = 1000
SECONDS = 10.0
FLAT_OUT_REQUESTS = 20_000
P50_MS, P99_MS = 2.0, 10.0


def main() -> None:
    options = parser("Latency and rate of zoo manifests, one gateway process on one core.")
    options.add_argument("--seconds", type=float, default=SECONDS)
    options.add_argument("--requests", type=int, default=FLAT_OUT_REQUESTS, help="sent flat out")
    run(options, measure, tiny=("--seconds", "0.5", "--requests", "200"))


def measure(options: Namespace) -> Report:
    with fresh_stack() as stack:
        server, request = Server.at(stack.url), _warm_manifest(stack)
        described = machine(gateway_on_core=gateway_apart(stack))
        before = CpuUsage.now()
        due = [request] * int(PER_SECOND * options.seconds)
        rows = [
            flat_out_row(stack, flat_out(server, repeat(request, options.requests))),
            steady_row(stack, server, due),
        ]
        described["others_busy"] = CpuUsage.now().others_since(before)
    return Report(name="manifest", machine=described, rows=rows, claims=claims(*rows))


def _warm_manifest(stack: Stack) -> bytes:
    """Waits until all candidates are compiled, so that nothing else is going on."""
    with GatewayClient(url=stack.url, operator_key=stack.keys.operator) as gateway:
        for target in TARGETS:
            await_compiled(gateway, gateway.register(WORKLOAD, target))
        (entry,) = gateway.manifest(WORKLOAD.key, *DEVICE_CLASSES).entries
        assert entry.wasm is not None
        assert entry.webgpu is not None
    return Server.at(stack.url).get(manifest_path(WORKLOAD.key, *DEVICE_CLASSES))


def manifest_path(name: str, *device_classes: str) -> str:
    classes = "/".join(quote(each, safe=":+") for each in device_classes)
    return f"/v1/zoo/{quote(name, safe=':')}/{classes}"


def flat_out_row(stack: Stack, loading: Coroutine[Any, Any, OfferedLoad]) -> dict[str, Cell]:
    return _row(stack, "flat out", lambda: asyncio.run(loading))


def steady_row(stack: Stack, server: Server, requests: Sequence[bytes]) -> dict[str, Cell]:
    stream = Stream(requests=requests, per_second=PER_SECOND)
    return _row(stack, f"{PER_SECOND}/s", lambda: steady(server, stream)[0])


def _row(stack: Stack, what: str, loaded: Callable[[], OfferedLoad]) -> dict[str, Cell]:
    """`p50_ms` and `p99_ms` count from when a request was due, the others from its sending;
    `gateway_ms` is the gateway's processor time for one.
    """
    note(what)
    used_s = gateway_used_s(stack)
    load = loaded()
    used_s = gateway_used_s(stack) - used_s
    return {
        "load": what,
        "requests": len(load.sent_ms),
        "per_second": load.per_second,
        "p50_ms": percentile(load.waited_ms, 50),
        "p99_ms": percentile(load.waited_ms, 99),
        "sent_p50_ms": percentile(load.sent_ms, 50),
        "sent_p99_ms": percentile(load.sent_ms, 99),
        "gateway_ms": 1e3 * used_s / len(load.sent_ms),
        "unchanged": load.statuses.count(HTTPStatus.NOT_MODIFIED),
    }


def claims(flat_out_row: dict[str, Cell], steady_row: dict[str, Cell]) -> list[Claim]:
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
