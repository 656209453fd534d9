"""Measures what page loads, and health checks, see of a flood of manifests that are in no memory.

Anybody can ask for manifests of device classes that nobody else is of, each of which has to be
built. A thousand a second are asked for by one network, beside the loads of pages whose class has
voted, of pages of twenty classes that have not, which others load from two networks, and beside
agents that measure, all of which have come before. The gateway is held to one core; all else
shares the others. Before the flood the same pages are loaded without it.
"""

import asyncio
import multiprocessing
import os
import time
from argparse import Namespace
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from itertools import count, cycle, islice, repeat

import httpx2

from bench.busy import CpuUsage
from bench.options import parser, run
from bench.report import CannotMeasure, Cell, Claim, Report, machine
from bench.samples import percentile
from bench.serving.fresh_stack import await_compiled, fresh_stack, gateway_apart, gateway_used_s
from bench.serving.load import OfferedLoad, Server
from bench.serving.manifest import manifest_path
from bench.serving.open_loop import Stream, steady
from bench.serving.page_loads import voted
from cli.gateway_client import GatewayClient
from cli.simulate.crowd import Crowd
from cli.simulate.scenario import Attack, Scenario
from cli.stack.ports import LOOPBACK
from cli.stack.supervisor import Stack
from cli.terminal import note
from kernelzoo.domain.target import TargetKind
from kernelzoo.domain.workload import Workload
from kernelzoo.store.blocking import connected

SETTINGS = (("KERNELZOO_SESSION_S", "3600"),)
"""An agent here opens one session."""
VOTED = "matmul:f32:m16k16n16"
MEASURED = "matmul:f32:m24k24n24"
PER_SECOND, HITS_PER_SECOND, PROBES_PER_SECOND = 1000, 100, 10
SECONDS = 60.0
AGENTS = 200
AGENTS_OF_A_CLASS = 10
AGENTS_NICE = 10
AT_WORK_S = 120.0
MEASURING_S = 2.0
"""A measurement takes an agent so long."""
UNVOTED, UNVOTED_PER_SECOND = 20, 20
NETWORKS = ("127.0.1.1", "127.0.2.1")
"""Networks of pages; the flood comes from the third."""
QUIET_SHARE = 0.25
"""Length of the time without a flood, of that with it."""
MOST_SLOWER = 3.0
SHED = HTTPStatus.SERVICE_UNAVAILABLE
ANSWERED_MS, HIT_MS = 250.0, 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Loads:
    """All this was asked at once."""

    misses: OfferedLoad
    hits: OfferedLoad
    unvoted: OfferedLoad
    probes: OfferedLoad


def main() -> None:
    options = parser("Manifests that have to be built, a thousand a second: what others see of it.")
    options.add_argument("--seconds", type=float, default=SECONDS)
    options.add_argument("--agents", type=int, default=AGENTS)
    run(options, measure, tiny=("--seconds", "1", "--agents", "10"))


def measure(options: Namespace) -> Report:
    with fresh_stack(SETTINGS) as stack:
        (device_class, *_) = voted(stack, 1, VOTED)
        with GatewayClient(url=stack.url, operator_key=stack.keys.operator) as gateway:
            await_compiled(gateway, gateway.register(Workload.parse(MEASURED), TargetKind.WASM))
        described = machine(gateway_on_core=gateway_apart(stack), agents=options.agents)
        before = CpuUsage.now()
        with _working(stack, options.agents):
            # As the gateway has it once a page of the class was loaded.
            httpx2.get(stack.url + manifest_path(VOTED, device_class)).raise_for_status()
            server = Server.at(stack.url)
            note("the same page loads without misses")
            (quiet,) = steady(server, _hits(server, device_class, QUIET_SHARE * options.seconds))
            note(f"{PER_SECOND} misses a second for {options.seconds:g} s")
            used_s, start_s = gateway_used_s(stack), time.perf_counter()
            loads = _loads(server, device_class, options.seconds)
            # Less than 1 while requests wait: it is not the gateway that they wait for.
            described["gateway_busy"] = (gateway_used_s(stack) - used_s) / (
                time.perf_counter() - start_s
            )
        described["others_busy"] = CpuUsage.now().others_since(before)
    rows = [
        _row("page loads without misses", quiet),
        _row("misses", loads.misses),
        _row("page loads in memory", loads.hits),
        _row("page loads of classes that have not voted", loads.unvoted),
        _row("readiness", loads.probes),
    ]
    return Report(name="misses", machine=described, rows=rows, claims=_claims(loads, quiet))


@contextmanager
def _working(stack: Stack, agents: int) -> Iterator[None]:
    """Agents at work, in a process of their own, until the block ends.

    Raises CannotMeasure where they do not come, or fail meanwhile.
    """
    crowd = max(1, agents // AGENTS_OF_A_CLASS)
    before = _borrowers(stack)
    working = multiprocessing.get_context("spawn").Process(
        target=_work, args=(stack.url, crowd), daemon=True
    )
    working.start()
    try:
        until_s = time.monotonic() + AT_WORK_S
        while _borrowers(stack) < before + crowd * AGENTS_OF_A_CLASS:
            if time.monotonic() > until_s:
                raise CannotMeasure(f"not all agents borrowed anything within {AT_WORK_S:g} s")
            time.sleep(0.2)
        yield
        if working.exitcode:
            raise CannotMeasure("the agents failed before the end, so that none were at work")
    finally:
        working.terminate()
        working.join()


def _borrowers(stack: Stack) -> int:
    with connected(stack.postgres.url) as db:
        row = db.execute("SELECT count(DISTINCT identity_id) FROM lease").fetchone()
    assert row is not None, "an aggregate is one row"
    return int(row[0])


def _work(url: str, classes: int) -> None:
    # Agents are on devices of their own: these give way to the load that is timed.
    os.nice(AGENTS_NICE)
    scenario = Scenario(
        attack=Attack.RANDOM,
        malicious_share=0,
        classes=classes,
        identities=AGENTS_OF_A_CLASS,
        workloads=(VOTED, MEASURED),
        seed=0,
    )
    crowd = Crowd(
        url=url,
        scenario=scenario,
        at_once=classes * AGENTS_OF_A_CLASS,
        cost_s=MEASURING_S,
        together=True,
    )
    asyncio.run(crowd.vote())


def _loads(server: Server, device_class: str, seconds: float) -> Loads:
    """Every miss is of a class of its own."""
    unvoted = [
        server.get(manifest_path(VOTED, f"{number:016x}:r1-0:wasm+simd128"))
        for number in range(UNVOTED)
    ]
    invented = (
        server.get(manifest_path(VOTED, f"{number:016x}:r1-0:wasm+simd128"))
        for number in count(UNVOTED)
    )
    misses, hits, one, other, probes = steady(
        server,
        _stream(invented, PER_SECOND, seconds),
        _hits(server, device_class, seconds),
        *(_stream(cycle(unvoted), UNVOTED_PER_SECOND // 2, seconds, each) for each in NETWORKS),
        _stream(repeat(server.get("/readyz")), PROBES_PER_SECOND, seconds),
    )
    return Loads(misses=misses, hits=hits, unvoted=_together(one, other), probes=probes)


def _stream(
    requests: Iterable[bytes], per_second: int, seconds: float, source: str = LOOPBACK
) -> Stream:
    asked = list(islice(requests, int(per_second * seconds) + 2))
    return Stream(requests=asked, per_second=per_second, refused=(SHED,), source=source)


def _hits(server: Server, device_class: str, seconds: float) -> Stream:
    request = server.get(manifest_path(VOTED, device_class))
    return _stream(repeat(request), HITS_PER_SECOND, seconds)


def _together(one: OfferedLoad, other: OfferedLoad) -> OfferedLoad:
    return OfferedLoad(
        waited_ms=one.waited_ms + other.waited_ms,
        sent_ms=one.sent_ms + other.sent_ms,
        late_ms=one.late_ms + other.late_ms,
        statuses=one.statuses + other.statuses,
        elapsed_s=max(one.elapsed_s, other.elapsed_s),
    )


def _row(what: str, load: OfferedLoad) -> dict[str, Cell]:
    """`p50_ms` and `p99_ms` are of what was answered, `shed_p99_ms` of what was refused;
    `sent_late_p99_ms` is how late this process came to them, and in none of these.
    """
    answered, shed = _of(load, refused=False), _of(load, refused=True)
    statuses = Counter(load.statuses)
    return {
        "load": what,
        "requests": len(load.waited_ms),
        "per_second": load.per_second,
        "answered": len(answered),
        "shed": statuses[SHED],
        "p50_ms": percentile(answered, 50) if len(answered) > 1 else None,
        "p99_ms": percentile(answered, 99) if len(answered) > 1 else None,
        "shed_p99_ms": percentile(shed, 99) if len(shed) > 1 else None,
        "sent_late_p99_ms": percentile(load.late_ms, 99),
    }


def _of(load: OfferedLoad, *, refused: bool) -> list[float]:
    pairs = zip(load.waited_ms, load.statuses, strict=True)
    return [waited_ms for waited_ms, status in pairs if (status == SHED) is refused]


def _claims(loads: Loads, quiet: OfferedLoad) -> list[Claim]:
    answered, shed = (_of(loads.misses, refused=refused) for refused in (False, True))
    slowest, refused_late = (
        percentile(each, 99) if len(each) > 1 else 0.0 for each in (answered, shed)
    )
    return [
        Claim.at_least("requests for what is not in memory", loads.misses.per_second, "per second",
                       0.99 * PER_SECOND),
        Claim.at_least("of them answered", len(answered), "manifests", 1),
        Claim.at_most("p99 of those answered", slowest, "ms", ANSWERED_MS),
        Claim.at_most("p99 of those refused", refused_late, "ms", ANSWERED_MS),
        Claim.at_most("page loads in memory, and health checks, refused",
                      loads.hits.statuses.count(SHED) + loads.probes.statuses.count(SHED),
                      "requests", 0),
        Claim.at_most("p99 of page loads in memory", percentile(loads.hits.waited_ms, 99), "ms",
                      HIT_MS),
        Claim.at_most("p99 of page loads in memory, over that without misses",
                      percentile(loads.hits.waited_ms, 99) / percentile(quiet.waited_ms, 99),
                      "times", MOST_SLOWER),
        Claim.at_most("page loads of classes that have not voted, refused",
                      loads.unvoted.statuses.count(SHED) / len(loads.unvoted.statuses), "of them",
                      0),
    ]  # fmt: skip


if __name__ == "__main__":
    main()
