"""Whatever process dies, the job completes and no accepted measurement is lost."""

import os
import signal

import psutil
import psycopg
import pytest
import redis

from cli.gateway_client import GatewayClient
from cli.stack.supervisor import Stack
from kernelzoo.domain.target import TargetKind
from kernelzoo.domain.workload import Workload
from services.gateway.wire.jobs import Job
from tests.e2e.scripted_agent import ScriptedAgent
from tests.running import eventually, rows

# Enough work that a kill hits the middle of it.
WORKLOADS = tuple(Workload.of("matmul", (384, 768, 64 * n)) for n in range(1, 9))

KILLS = 20

LENT_TWICE = """
SELECT count(*) FROM lease AS lost JOIN lease_item AS item ON item.lease_id = lost.id
  JOIN lease_item AS again ON again.candidate_id = item.candidate_id
  JOIN lease AS later ON later.id = again.lease_id AND later.id > lost.id
WHERE NOT lost.answered AND later.created_at < lost.expires_at
"""


def client(stack: Stack) -> GatewayClient:
    return GatewayClient(url=stack.url, operator_key=stack.keys.operator)


def agent(stack: Stack) -> ScriptedAgent:
    opened = ScriptedAgent(stack.url, stack.keys.operator)
    opened.open()
    return opened


def register(stack: Stack, workloads: tuple[Workload, ...]) -> None:
    with client(stack) as gateway:
        for workload in workloads:
            gateway.register(workload, TargetKind.WASM)


def compiled_of_all(stack: Stack) -> tuple[int, int]:
    """Candidates compiled, and candidates; no space may still be unplanned."""
    ((unplanned,),) = rows(stack, "SELECT count(*) FROM tuning_job WHERE state <> 'planned'")
    ((compiled, total),) = rows(
        stack, "SELECT count(*) FILTER (WHERE state = 'compiled'), count(*) FROM candidate"
    )
    return compiled, total + unplanned


def all_compiled(stack: Stack) -> bool:
    compiled, total = compiled_of_all(stack)
    return total > 0 and compiled == total


def measure_everything(stack: Stack, measuring: ScriptedAgent) -> Job:
    while measuring.measure_once():
        pass
    with client(stack) as gateway:
        return gateway.job(1)


@pytest.mark.parametrize(
    "victim", ["one child", pytest.param("the whole worker", marks=pytest.mark.slow)]
)
def test_a_compile_worker_killed_in_mid_batch_loses_no_candidate(stack: Stack, victim: str) -> None:
    register(stack, WORKLOADS)
    eventually(lambda: compiled_of_all(stack)[0] > 0, "a first candidate")
    leader = psutil.Process(stack.children["compile"].process.pid)
    if victim == "one child":
        leader.children()[0].kill()
    else:
        os.killpg(leader.pid, signal.SIGKILL)
    compiled, total = compiled_of_all(stack)
    assert compiled < total, "the kill came too late to prove anything"
    eventually(lambda: all_compiled(stack), "the rest of the candidates")
    assert rows(stack, "SELECT count(*) FROM candidate WHERE state = 'failed'") == [(0,)]


@pytest.mark.slow
def test_a_flushed_and_killed_redis_loses_no_work(stack: Stack) -> None:
    register(stack, WORKLOADS)
    broker = dict(stack.children["gateway"].spec.env)["KERNELZOO_REDIS_URL"]
    redis.Redis.from_url(broker).flushall()
    compiled, total = compiled_of_all(stack)
    assert compiled < total, "the flush came too late to prove anything"
    stack.children["redis"].process.kill()
    eventually(lambda: all_compiled(stack), "compiling after the flush")

    measuring = agent(stack)
    measuring.measure_once()
    redis.Redis.from_url(broker).flushall()
    eventually(
        lambda: rows(stack, "SELECT count(*) FROM zoo_entry WHERE state = 'confirmed'") == [(1,)],
        "an entry, though the messages were flushed",
    )


def test_a_postgresql_killed_under_load_keeps_every_acknowledged_measurement(stack: Stack) -> None:
    register(stack, WORKLOADS[:1])
    eventually(lambda: all_compiled(stack), "compiling")
    measuring = agent(stack)
    measuring.measure_once()
    before = len(measuring.acknowledged)
    kill_postgres(stack)
    job = measure_everything(stack, measuring)
    assert len(measuring.acknowledged) > before > 0
    stored = set(rows(stack, "SELECT lease_id, candidate_id FROM measurement"))
    assert measuring.acknowledged <= stored
    assert job.measurements == job.candidates
    eventually(
        lambda: (
            rows(stack, "SELECT count(*) FROM measurement WHERE verdict <> 'verified'") == [(0,)]
        ),
        "verifying what came around the restart",
    )
    eventually(
        lambda: rows(stack, "SELECT count(*) FROM zoo_entry WHERE state = 'confirmed'") == [(1,)],
        "the winner of the job",
    )


@pytest.mark.slow
def test_a_postgresql_killed_twenty_times_is_back_each_time(stack: Stack) -> None:
    """Every other time its first process alone dies, as the system may choose when memory is short:
    the next server must not start before what is left of it has ended.
    """
    register(stack, WORKLOADS)
    measuring = agent(stack)
    for number in range(KILLS):
        killed = kill_postgres(stack, alone=number % 2 == 0)
        await_another_server(stack, killed)
        if number % 5 == 0:
            measuring.measure_once()
    eventually(lambda: all_compiled(stack), "compiling around the kills")
    assert measuring.acknowledged
    stored = set(rows(stack, "SELECT lease_id, candidate_id FROM measurement"))
    assert measuring.acknowledged <= stored


def kill_postgres(stack: Stack, *, alone: bool = False) -> int:
    """Kills its first process, alone or with all others. Returns its id."""
    server = psutil.Process(stack.postgres.pid)
    for process in (server, *([] if alone else server.children(recursive=True))):
        process.kill()
    return server.pid


def await_another_server(stack: Stack, killed: int) -> None:
    eventually(lambda: stack.postgres.pid != killed and answers(stack), "a server again")


def answers(stack: Stack) -> bool:
    try:
        return rows(stack, "SELECT 1") == [(1,)]
    except psycopg.OperationalError:
        return False


def test_a_gateway_killed_in_mid_lease_is_forgiven(stack: Stack) -> None:
    register(stack, WORKLOADS[:1])
    eventually(lambda: all_compiled(stack), "compiling")
    measuring = agent(stack)
    measuring.measure_once()
    stack.children["gateway"].process.kill()
    job = measure_everything(stack, measuring)
    assert job.measurements == job.candidates == len(measuring.acknowledged)


@pytest.mark.slow
def test_an_agent_that_leaves_in_mid_lease_leaves_its_work_to_its_successor(stack: Stack) -> None:
    register(stack, WORKLOADS[:1])
    eventually(lambda: all_compiled(stack), "compiling")
    leaving = agent(stack)
    lost = leaving._insist("POST", "/v1/leases", {"limit": 4, "wait_s": 1}).json()
    returned = ScriptedAgent(stack.url, stack.keys.operator, token=leaving.token)
    measure_everything(stack, returned)
    waiting = {kernel["candidate"] for kernel in lost["candidates"]}

    def done() -> bool:
        returned.measure_once()
        return waiting <= {candidate for _, candidate in returned.acknowledged}

    eventually(done, "the end of the lost lease")
    assert rows(stack, LENT_TWICE) == [(0,)], "an open lease was lent again"
