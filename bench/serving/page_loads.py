"""A million page loads from 200 device classes, replayed against the gateway as fast as it goes.

First a simulated crowd votes in every class through the real gateway, so that each is served a
winner of its own. Then visitors ask for the manifest: their classes follow Zipf's law, and some
have an earlier answer and ask whether it is still good. Both kinds of requests count alike.
"""

import asyncio
from argparse import Namespace
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate, islice
from random import Random

import httpx2

from bench.busy import CpuUsage
from bench.options import parser, run
from bench.report import Claim, Report, machine
from bench.serving.fresh_stack import await_compiled, fresh_stack, gateway_apart, gateway_processes
from bench.serving.load import Server, flat_out, within
from bench.serving.manifest import PER_SECOND, claims, flat_out_row, manifest_path, steady_row
from bench.serving.memory import watched
from cli.gateway_client import GatewayClient
from cli.simulate.crowd import Crowd
from cli.simulate.run import settle
from cli.simulate.scenario import Attack, Scenario
from cli.stack.supervisor import Stack
from cli.terminal import note
from kernelzoo.domain.target import TargetKind
from kernelzoo.domain.workload import Workload

CLASSES = 200
LOADS = 1_000_000
WITHIN_S = 300.0
STEADY_S = 30.0
WORKLOAD = "matmul:f32:m16k16n16"
VOTERS = 10
"""Voters of each class: as many as confirm alone."""
RETURNING = 0.3
"""Share of the visitors who have the manifest and ask whether it changed."""
MAX_GROWTH = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassRequests:
    """Visitors of a class send these: the first time, and when they have an answer."""

    first: bytes
    again: bytes


def main() -> None:
    options = parser(
        "Page loads from many device classes: latency, rate, and the gateway's memory."
    )
    options.add_argument("--loads", type=int, default=LOADS)
    options.add_argument("--classes", type=int, default=CLASSES)
    options.add_argument("--seconds", type=float, default=WITHIN_S, help="of loads, at most")
    options.add_argument("--steady", type=float, default=STEADY_S, metavar="SECONDS")
    small = ("--loads", "500", "--classes", "2", "--seconds", "2", "--steady", "0.5")
    run(options, measure, tiny=small)


def measure(options: Namespace) -> Report:
    with fresh_stack() as stack:
        server = Server.at(stack.url)
        pages = [_page(stack.url, server, each) for each in voted(stack, options.classes, WORKLOAD)]
        visits = _visits(pages)
        described = machine(gateway_on_core=gateway_apart(stack), classes=len(pages))
        before = CpuUsage.now()
        with watched(gateway_processes(stack)) as memory:
            asked = within(islice(visits, options.loads), options.seconds)
            fast = flat_out_row(stack, flat_out(server, asked))
        paced = steady_row(stack, server, list(islice(visits, int(PER_SECOND * options.steady))))
        described["others_busy"] = CpuUsage.now().others_since(before)
    described |= {"memory_start_mib": memory.start_mib, "memory_end_mib": memory.end_mib}
    rows = [fast, paced]
    growth = Claim.at_most("growth of the gateway's memory", memory.growth, "of it", MAX_GROWTH)
    return Report(name="page_loads", machine=described, rows=rows, claims=[*claims(*rows), growth])


def voted(stack: Stack, classes: int, workload: str) -> list[str]:
    """The device classes, each with a confirmed entry of the workload."""
    scenario = Scenario(
        attack=Attack.RANDOM,
        malicious_share=0,
        classes=classes,
        identities=VOTERS,
        workloads=(workload,),
        seed=0,
    )
    with GatewayClient(url=stack.url, operator_key=stack.keys.operator) as gateway:
        await_compiled(gateway, gateway.register(Workload.parse(workload), TargetKind.WASM))
    note(f"{VOTERS} voters in each of {classes} classes")
    crowd = Crowd(url=stack.url, scenario=scenario)
    asyncio.run(crowd.vote())
    settle(stack)
    return sorted({key.device_class for key in crowd.keys.values()})


def _page(url: str, server: Server, device_class: str) -> ClassRequests:
    path = manifest_path(WORKLOAD, device_class)
    etag = httpx2.get(url + path).raise_for_status().headers["ETag"]
    return ClassRequests(first=server.get(path), again=server.get(path, If_None_Match=etag))


def _visits(pages: list[ClassRequests]) -> Iterator[bytes]:
    """Without end, and the same in every run."""
    chance = Random(0)
    shares = list(accumulate(1 / rank for rank in range(1, len(pages) + 1)))
    while True:
        for page in chance.choices(pages, cum_weights=shares, k=1000):
            yield page.again if chance.random() < RETURNING else page.first


if __name__ == "__main__":
    main()
