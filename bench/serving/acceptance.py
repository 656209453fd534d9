"""Measurements accepted durably by one gateway process, and none lost when PostgreSQL is killed.

Agents answer leases that were granted beforehand, eight measurements a report, as fast as they are
accepted; the aggregator verifies them at the same time. In a second load PostgreSQL is killed with
SIGKILL: whatever was acknowledged must be stored when it is back. The gateway has a core of its
own; everything else, PostgreSQL and this load with it, shares the others.
"""

import asyncio
import time
from argparse import Namespace
from dataclasses import dataclass, replace
from http import HTTPStatus
from itertools import cycle, islice

import psutil

from bench.busy import CpuUsage
from bench.options import parser, run
from bench.report import CannotMeasure, Cell, Claim, Report, machine
from bench.serving.fresh_stack import await_compiled, fresh_stack, gateway_apart, gateway_used_s
from bench.serving.load import HttpConnection, Server, flat_out, within
from bench.serving.reports import right_report
from cli.gateway_client import GatewayClient
from cli.simulate.members import session_of, visitor
from cli.simulate.stranger import stranger
from cli.stack.supervisor import Stack, tended
from cli.terminal import note
from kernelzoo.domain.lease import LentRole
from kernelzoo.domain.target import TargetKind
from kernelzoo.domain.workload import Workload
from kernelzoo.store import census, leases
from kernelzoo.store.blocking import Database, connected, fetch_all, fetch_one
from services.gateway.tokens import Tokens
from services.gateway.wire.leases import Lease

WORKLOAD = Workload.parse("matmul:f32:m16k16n16")
AGENTS = 16
PER_REPORT = 8
REPORTS = 4000
WITHIN_S = 90.0
PER_SECOND = 2000
GATEWAY_MS = 1.0
SEED = 1
NONCE = "bench"
LEASE_S = 3600
BACK_WITHIN_S = 60.0
AGAIN_S = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Agent:
    """An open session; `lease` tells which kernels there are."""

    token: str
    address: str
    job_id: int
    lease: Lease


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """A report and the lease that it answers."""

    lease_id: int
    request: bytes


def main() -> None:
    options = parser("Measurements accepted durably a second, and after a kill of PostgreSQL.")
    options.add_argument("--reports", type=int, default=REPORTS, help="of each load, at most")
    options.add_argument("--seconds", type=float, default=WITHIN_S, help="of each load, at most")
    run(options, measure, tiny=("--reports", "40", "--seconds", "2"))


def measure(options: Namespace) -> Report:
    note("starting a stack")
    with fresh_stack() as stack:
        agents = _agents(stack)
        described = machine(gateway_on_core=gateway_apart(stack))
        with tended(stack):
            before = CpuUsage.now()
            rows = [
                _rate(stack, _granted(stack, agents, options.reports), options.seconds),
                _killed(stack, _granted(stack, agents, options.reports), options.seconds),
            ]
            described["others_busy"] = CpuUsage.now().others_since(before)
    return Report(name="acceptance", machine=described, rows=rows, claims=_claims(*rows))


def _claims(undisturbed: dict[str, Cell], killed: dict[str, Cell]) -> list[Claim]:
    rate, gateway_ms, lost = (
        float(row[name] or 0)
        for row, name in (
            (undisturbed, "per_second"),
            (undisturbed, "gateway_ms"),
            (killed, "lost"),
        )
    )
    return [
        Claim.at_least("measurements accepted durably", rate, "per second", PER_SECOND),
        Claim.at_most("processor time of the gateway for a report", gateway_ms, "ms", GATEWAY_MS),
        Claim.at_most("acknowledged and lost to a kill of PostgreSQL", lost, "measurements", 0),
    ]


def _agents(stack: Stack) -> list[Agent]:
    note(f"compiling {WORKLOAD.key}")
    with GatewayClient(url=stack.url, operator_key=stack.keys.operator) as gateway:
        job = await_compiled(gateway, gateway.register(WORKLOAD, TargetKind.WASM))
    return [_agent(stack, job.job, number) for number in range(AGENTS)]


def _agent(stack: Stack, job_id: int, number: int) -> Agent:
    member = visitor("bench/0", address=f"127.1.{number}.1")

    async def opened() -> Agent:
        async with stranger(stack.url, member.address, session_of(member)) as one:
            lease = await one.lease(0) if one else None
            if one is None or lease is None:
                raise CannotMeasure("an agent was turned away, or lent nothing")
            return Agent(token=one.token, address=member.address, job_id=job_id, lease=lease)

    return asyncio.run(opened())


def _granted(stack: Stack, agents: list[Agent], reports: int) -> list[Sent]:
    """Leases for the agents in turn, granted past the scheduler, and reports that answer them."""
    server, tokens = Server.at(stack.url), Tokens(secret=stack.keys.token_secret, session_s=3600)
    known = {kernel.candidate for agent in agents for kernel in agent.lease.candidates}
    if len(known) < PER_REPORT:
        raise CannotMeasure(f"the agents were lent {len(known)} kernels, fewer than a report has")
    lent = sorted(known)[:PER_REPORT]
    with connected(stack.postgres.url) as db, db.transaction():
        return [_sent(db, server, tokens, agent, lent) for agent in islice(cycle(agents), reports)]


def _sent(db: Database, server: Server, tokens: Tokens, agent: Agent, lent: list[str]) -> Sent:
    session = tokens.session(agent.token, network=tokens.network(agent.address), origin="")
    # The load comes from one address, and a token is good where its session was opened.
    token = tokens.issue_session(replace(session, network=tokens.network(server.host)))
    granted = fetch_one(
        db,
        leases.grant(
            session_id=session.session_id,
            identity_id=session.identity_id,
            device_class=session.device_class,
            job_id=agent.job_id,
            reference_id=agent.lease.reference.candidate,
            items=dict.fromkeys(lent, LentRole.EXPLORE),
            complete=False,
            seed=SEED,
            nonce=NONCE,
            duration_s=LEASE_S,
        ),
    )
    assert granted is not None
    request = server.post(
        f"/v1/leases/{granted.id}/measurements",
        right_report(WORKLOAD, SEED, NONCE, lent).model_dump_json().encode(),
        Authorization=f"Bearer {token}",
    )
    return Sent(lease_id=granted.id, request=request)


def _rate(stack: Stack, sent: list[Sent], within_s: float) -> dict[str, Cell]:
    note(f"reporting on {len(sent)} leases")
    stored_bytes = _stored_bytes(stack)
    used_s = gateway_used_s(stack)
    requests = within((each.request for each in sent), within_s)
    load = asyncio.run(flat_out(Server.at(stack.url), requests))
    used_s = gateway_used_s(stack) - used_s
    acknowledged = sent[: len(load.sent_ms)]
    lost = _lost(stack, acknowledged)
    row = _row("as fast as accepted", acknowledged, load.elapsed_s, lost, used_s)
    stored_bytes = (_stored_bytes(stack) - stored_bytes) / (len(acknowledged) * PER_REPORT)
    return row | {"stored_bytes": stored_bytes}


def _killed(stack: Stack, sent: list[Sent], within_s: float) -> dict[str, Cell]:
    note(f"reporting on {len(sent)} leases more, with a kill of PostgreSQL among them")
    started_s, used_s = time.perf_counter(), gateway_used_s(stack)
    acknowledged = asyncio.run(_insist(stack, sent, within_s))
    elapsed_s = time.perf_counter() - started_s
    used_s = gateway_used_s(stack) - used_s
    lost = _lost(stack, acknowledged)
    return _row("PostgreSQL killed", acknowledged, elapsed_s, lost, used_s)


def _row(
    load: str, acknowledged: list[Sent], elapsed_s: float, lost: int, gateway_s: float
) -> dict[str, Cell]:
    if not acknowledged:
        raise CannotMeasure("no report was accepted in time")
    measurements = len(acknowledged) * PER_REPORT
    return {
        "load": load,
        "reports": len(acknowledged),
        "measurements": measurements,
        "per_second": measurements / elapsed_s,
        "gateway_busy": gateway_s / elapsed_s,
        "gateway_ms": gateway_s * 1e3 / len(acknowledged),
        "lost": lost,
        "stored_bytes": None,
    }


def _stored_bytes(stack: Stack) -> float:
    """Bytes of the whole database: tables, indexes, and what its leases took beforehand."""
    with connected(stack.postgres.url) as db:
        return next(size.bytes for size in fetch_all(db, census.sizes()) if not size.name)


def _lost(stack: Stack, acknowledged: list[Sent]) -> int:
    """Measurements that were acknowledged and are not stored."""
    with connected(stack.postgres.url) as db:
        found = (fetch_one(db, leases.lease(each.lease_id)) for each in acknowledged)
        stored = sum(len(row.answered_ids) for row in found if row is not None)
    return len(acknowledged) * PER_REPORT - stored


async def _insist(stack: Stack, sent: list[Sent], within_s: float) -> list[Sent]:
    """Sends each until it is acknowledged, and returns those that were. PostgreSQL is killed in the
    middle of them, or of the time.
    """
    server, waiting, acknowledged = Server.at(stack.url), iter(sent), list[Sent]()
    began_s, due = time.monotonic(), True

    async def agent() -> None:
        nonlocal due
        for each in waiting:
            if await _until_answered(server, each.request) == HTTPStatus.ACCEPTED:
                acknowledged.append(each)
            elapsed_s = time.monotonic() - began_s
            if due and (len(acknowledged) >= len(sent) // 2 or elapsed_s > within_s / 2):
                due = False
                note(f"killing PostgreSQL after {len(acknowledged)} reports")
                _kill(psutil.Process(stack.postgres.pid))
            if elapsed_s > within_s:
                return

    async with asyncio.TaskGroup() as group:
        for _ in range(AGENTS):
            group.create_task(agent())
    return acknowledged


async def _until_answered(server: Server, request: bytes) -> int:
    """202, or 409 where the report was stored and its acknowledgement lost."""
    deadline_s = time.monotonic() + BACK_WITHIN_S
    while time.monotonic() < deadline_s:
        connection = await HttpConnection.to(server)
        status = await connection.ask(request)
        await connection.close()
        if status < HTTPStatus.INTERNAL_SERVER_ERROR:
            return status
        await asyncio.sleep(AGAIN_S)
    raise CannotMeasure(f"the gateway was not back within {BACK_WITHIN_S:g} s")


def _kill(server: psutil.Process) -> None:
    for process in (server, *server.children(recursive=True)):
        process.kill()


if __name__ == "__main__":
    main()
