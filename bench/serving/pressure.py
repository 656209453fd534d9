"""Strangers press the gateway while it serves pages, health checks and honest agents.

Four kinds of pressure, one after the other, each from a process of its own: manifests of classes
that nobody is of, each of which has to be built; headers without end; as many connections as the
gateway has, held by half a request; and reports and ballots that were sent before, again and again.

All the while pages are loaded whose class has voted, and pages of twenty classes that have not,
which others load from two networks, each on a connection of its own, and agents measure, all of
which have come before. The gateway is held to one core; all else shares the others. Before the
first pressure the same pages are loaded without any; and before repeated reports while they are
sent to a server on the gateway's core that answers each at once (`instant`), which tells what
senders, sockets and the system cost by themselves.
"""

import asyncio
import multiprocessing
import os
import time
from argparse import Namespace
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import count, cycle, islice, repeat
from typing import Any, LiteralString

import httpx2

from bench.busy import CpuUsage
from bench.options import parser, run
from bench.report import CannotMeasure, Cell, Claim, Report, machine
from bench.samples import percentile
from bench.serving import attackers
from bench.serving.attackers import Attack, invented_manifest, joined
from bench.serving.fresh_stack import await_compiled, fresh_stack, gateway_apart, gateway_used_s
from bench.serving.instant import instant_server
from bench.serving.load import OfferedLoad, Server
from bench.serving.manifest import manifest_path
from bench.serving.open_loop import ANY_REFUSAL, Stream, steady
from bench.serving.page_loads import voted
from cli.gateway_client import GatewayClient
from cli.simulate.crowd import Crowd
from cli.simulate.scenario import Attack as Simulated
from cli.simulate.scenario import Scenario
from cli.stack.ports import LOOPBACK
from cli.stack.supervisor import Stack
from cli.terminal import note
from kernelzoo.domain.target import TargetKind
from kernelzoo.domain.workload import Workload
from kernelzoo.store.blocking import Database, connected

SETTINGS = (("KERNELZOO_SESSION_S", "3600"),)
"""An agent here opens one session."""
VOTED = attackers.WORKLOAD
MEASURED = "matmul:f32:m24k24n24"
LOADS_PER_SECOND, PROBES_PER_SECOND = 100, 10
SECONDS = 60.0
SETTLING_S = 2.0
"""Pressure begins so long before the first page that counts, and goes on as long after the last."""
AGENTS = 200
AGENTS_OF_A_CLASS = 10
AGENTS_NICE = 10
AT_WORK_S = 120.0
MEASURING_S = 2.0
"""A measurement takes an agent so long."""
UNVOTED, UNVOTED_PER_SECOND = 20, 20
NETWORKS = ("127.0.1.1", "127.0.2.1")
"""Pages come from these."""
LOOKED_EVERY_S = 0.05
MOST_SLOWER = 3.0
JUDGED_S = 2.0
MISSES, HEADS = "misses", "heads without end"
HELD, REPEATED = "held connections", "repeated reports"
INSTANT = "repeated reports to a server that answers at once"
KINDS = (MISSES, HEADS, HELD, REPEATED)
ANSWERED_MS, LOADED_MS = 250.0, 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Reports:
    """Measurements that came, and how long the one waited for its verdict that waited longest."""

    measurements: int
    waited_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """An attack, if there was one, and what others saw of it meanwhile.
    `gateway_busy`: the part of its core that the gateway used.
    """

    kind: str
    attack: OfferedLoad | None
    pages: OfferedLoad
    unvoted_pages: OfferedLoad
    probes: OfferedLoad
    reports: Reports
    gateway_busy: float


def main() -> None:
    options = parser("Pages, health checks and reports while strangers press the gateway.")
    options.add_argument("--seconds", type=float, default=SECONDS, help="of each pressure")
    options.add_argument("--agents", type=int, default=AGENTS)
    options.add_argument("--only", nargs="*", choices=KINDS, default=KINDS, metavar="PRESSURE",
                         help=f"of {', '.join(KINDS)}")  # fmt: skip
    run(options, measure, tiny=("--seconds", "1", "--agents", "10"))


def measure(options: Namespace) -> Report:
    with fresh_stack(SETTINGS) as stack, _apart() as attacker, _apart() as watcher:
        (device_class, *_) = voted(stack, 1, VOTED)
        with GatewayClient(url=stack.url, operator_key=stack.keys.operator) as gateway:
            await_compiled(gateway, gateway.register(Workload.parse(MEASURED), TargetKind.WASM))
        core = gateway_apart(stack)
        described = machine(gateway_on_core=core, agents=options.agents)
        before = CpuUsage.now()
        with _working(stack, options.agents):
            # As the gateway has it once a page of the class was loaded.
            httpx2.get(stack.url + manifest_path(VOTED, device_class)).raise_for_status()
            server = Server.at(stack.url)
            beside = partial(_beside, stack, server, device_class, watcher, options.seconds)
            quiet = beside("no pressure", None)
            attacks = _attacks(server)
            floors: list[Seen] = []
            lasting_s = options.seconds + 2 * _settling_s(options.seconds)
            pressed = []
            for kind in options.only:
                if kind == REPEATED:
                    with instant_server(core) as instant:
                        attacking = attacker.submit(attacks[kind], instant, lasting_s)
                        floors.append(beside(INSTANT, attacking))
                attacking = attacker.submit(attacks[kind], server, lasting_s)
                pressed.append(beside(kind, attacking))
        described["others_busy"] = CpuUsage.now().others_since(before)
        described |= {f"slower beside {each.kind}": _slower(each, quiet) for each in floors}
    rows = [row for each in (quiet, *floors, *pressed) for row in _rows(each)]
    claims = [claim for each in pressed for claim in _claims(each, quiet)]
    return Report(name="pressure", machine=described, rows=rows, claims=claims)


def _attacks(server: Server) -> Mapping[str, Attack]:
    sent = asyncio.run(attackers.reported_once(server))
    return {
        MISSES: attackers.misses,
        HEADS: attackers.heads,
        HELD: attackers.held,
        REPEATED: partial(attackers.repeated, sent),
    }


@contextmanager
def _apart() -> Iterator[Executor]:
    """Carries out what it is given in one process of its own, which has begun."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as process:
        process.submit(int).result()
        yield process


def _beside(
    stack: Stack,
    server: Server,
    device_class: str,
    watcher: Executor,
    seconds: float,
    kind: str,
    attacking: Future[OfferedLoad] | None,
) -> Seen:
    """Looks at what others see beside an attack that has begun, or beside none."""
    note(f"{kind}, for {seconds:g} s")
    time.sleep(_settling_s(seconds))
    watching = watcher.submit(_watch_reports, stack.postgres.url, seconds)
    used_s, start_s = gateway_used_s(stack), time.perf_counter()
    pages, unvoted_pages, probes = _load_pages(server, device_class, seconds)
    busy = (gateway_used_s(stack) - used_s) / (time.perf_counter() - start_s)
    return Seen(
        kind=kind,
        attack=None if attacking is None else attacking.result(),
        pages=pages,
        unvoted_pages=unvoted_pages,
        probes=probes,
        reports=watching.result(),
        gateway_busy=busy,
    )


def _settling_s(seconds: float) -> float:
    return min(SETTLING_S, seconds / 4)


def _load_pages(
    server: Server, device_class: str, seconds: float
) -> tuple[OfferedLoad, OfferedLoad, OfferedLoad]:
    def stream(requests: Iterable[bytes], per_second: int, source: str) -> Stream:
        """Each is of a visitor that comes, with a connection of its own."""
        due = list(islice(requests, int(per_second * seconds) + 2))
        return Stream(
            requests=due, per_second=per_second, refused=ANY_REFUSAL, source=source, kept=False
        )

    unvoted = [server.get(invented_manifest(number)) for number in range(UNVOTED)]
    pages, one, other, probes = steady(
        server,
        stream(
            repeat(server.get(manifest_path(VOTED, device_class))), LOADS_PER_SECOND, NETWORKS[0]
        ),
        *(stream(cycle(unvoted), UNVOTED_PER_SECOND // 2, each) for each in NETWORKS),
        stream(repeat(server.get("/readyz")), PROBES_PER_SECOND, LOOPBACK),
    )
    return pages, joined(one, other), probes


def _watch_reports(url: str, seconds: float) -> Reports:
    begun_s, waited_s = time.monotonic(), 0.0
    with connected(url) as db:
        (start,) = _one(db, "SELECT now()")
        while time.monotonic() < begun_s + seconds:
            (oldest_s,) = _one(
                db,
                """
                SELECT coalesce(extract(epoch FROM now() - min(created_at)), 0)::float
                FROM measurement WHERE verdict = 'pending'
                """,
            )
            waited_s = max(waited_s, oldest_s)
            time.sleep(LOOKED_EVERY_S)
        (measurements,) = _one(db, "SELECT count(*) FROM measurement WHERE created_at > %s", start)
    return Reports(measurements=measurements, waited_s=waited_s)


def _one(db: Database, question: LiteralString, *parameters: object) -> tuple[Any, ...]:
    row = db.execute(question, parameters).fetchone()
    assert row is not None, "an aggregate is one row"
    return tuple(row)


@contextmanager
def _working(stack: Stack, agents: int) -> Iterator[None]:
    """Agents at work, in a process of their own, until the block ends: who is done is followed by
    another on the same device.

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
        if working.exitcode is not None:
            raise CannotMeasure("the agents failed before the end, so that none were at work")
    finally:
        working.terminate()
        working.join()


def _borrowers(stack: Stack) -> int:
    with connected(stack.postgres.url) as db:
        (borrowers,) = _one(db, "SELECT count(DISTINCT identity_id) FROM lease")
    return int(borrowers)


def _work(url: str, classes: int) -> None:
    # Agents are on devices of their own: these give way to the load that is timed.
    os.nice(AGENTS_NICE)
    for seed in count():
        scenario = Scenario(
            attack=Simulated.RANDOM,
            malicious_share=0,
            classes=classes,
            identities=AGENTS_OF_A_CLASS,
            workloads=(VOTED, MEASURED),
            seed=seed,
        )
        crowd = Crowd(
            url=url,
            scenario=scenario,
            at_once=classes * AGENTS_OF_A_CLASS,
            cost_s=MEASURING_S,
            together=True,
        )
        asyncio.run(crowd.vote())


def _rows(seen: Seen) -> Iterator[dict[str, Cell]]:
    """`p50_ms` and `p99_ms` are of what was answered, `refused_p99_ms` of what was refused;
    `sent_late_p99_ms` is how late the process came to them that sent them, and in none of these.
    `at_once` is the mean number under way.
    """
    of_seen = {
        "attack": seen.attack,
        "pages in memory": seen.pages,
        "pages of classes that have not voted": seen.unvoted_pages,
        "readiness": seen.probes,
    }
    for what, load in of_seen.items():
        if load is None:
            continue
        answered, refused = _answered(load), _refused(load)
        yield {
            "pressure": seen.kind,
            "load": what,
            "requests": len(load.waited_ms),
            "per_second": load.per_second,
            "at_once": sum(load.waited_ms) / 1e3 / load.elapsed_s,
            "answered": len(answered),
            "refused": len(refused),
            "p50_ms": percentile(answered, 50) if len(answered) > 1 else None,
            "p99_ms": percentile(answered, 99) if len(answered) > 1 else None,
            "refused_p99_ms": percentile(refused, 99) if len(refused) > 1 else None,
            "sent_late_p99_ms": percentile(load.late_ms, 99) if len(load.late_ms) > 1 else None,
            "gateway_busy": seen.gateway_busy,
            "reported": seen.reports.measurements,
            "pending_s": seen.reports.waited_s,
        }


def _answered(load: OfferedLoad) -> list[float]:
    pairs = zip(load.waited_ms, load.statuses, strict=True)
    return [waited_ms for waited_ms, status in pairs if status not in ANY_REFUSAL]


def _refused(load: OfferedLoad) -> list[float]:
    pairs = zip(load.waited_ms, load.statuses, strict=True)
    return [waited_ms for waited_ms, status in pairs if status in ANY_REFUSAL]


def _claims(seen: Seen, quiet: Seen) -> Iterator[Claim]:
    under = f"under {seen.kind}"
    errors = sum(len(_refused(each)) for each in (seen.pages, seen.unvoted_pages, seen.probes))
    p99_ms, slower = percentile(seen.pages.waited_ms, 99), _slower(seen, quiet)
    yield Claim.at_most(f"p99 of page loads {under}, over that without", slower, "times",
                        MOST_SLOWER)  # fmt: skip
    yield Claim.at_most(f"p99 of page loads {under}", p99_ms, "ms", LOADED_MS)
    yield Claim.at_most(f"page loads and health checks not answered {under}", errors, "requests", 0)
    yield Claim.at_least(f"honest measurements {under}", seen.reports.measurements, "measurements",
                         1)  # fmt: skip
    yield Claim.at_most(f"longest wait of one for its verdict {under}", seen.reports.waited_s, "s",
                        JUDGED_S)  # fmt: skip
    if seen.kind == MISSES and seen.attack is not None:
        yield from _claims_of_misses(seen.attack)


def _slower(seen: Seen, quiet: Seen) -> float:
    """The 99th percentile of page loads over that without pressure."""
    return percentile(seen.pages.waited_ms, 99) / percentile(quiet.pages.waited_ms, 99)


def _claims_of_misses(load: OfferedLoad) -> Iterator[Claim]:
    answered, refused = _answered(load), _refused(load)
    yield Claim.at_least("misses", load.per_second, "per second", 0.99 * attackers.PER_SECOND)
    yield Claim.at_least("misses answered", len(answered), "manifests", 1)
    for what, times_ms in (("answered", answered), ("refused", refused)):
        if len(times_ms) > 1:
            yield Claim.at_most(f"p99 of misses {what}", percentile(times_ms, 99), "ms",
                                ANSWERED_MS)  # fmt: skip


if __name__ == "__main__":
    main()
