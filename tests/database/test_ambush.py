"""Simulated attackers of an ambush against the real gateway."""

import asyncio
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from statistics import median

import pytest
import uvicorn

from cli.simulate.conduct import AMBUSHED, PLAUSIBLY_BURIED
from cli.simulate.crowd import BEFORE, Crowd, raid
from cli.simulate.scenario import Attack, Scenario
from cli.simulate.world import World
from cli.stack.ports import LOOPBACK, free_port
from fixtures.rows import compile_row
from kernelzoo.settings import Settings
from services.gateway.app import application
from tests.database.conftest import WORKLOAD, Connection, open_space
from tests.database.sharing.space import IDS, SPACE

AMBUSH = Scenario(
    attack=Attack.AMBUSH,
    malicious_share=0.2,
    classes=1,
    identities=20,
    workloads=(WORKLOAD.key,),
    seed=1,
)


@contextmanager
def listening(settings: Settings) -> Iterator[str]:
    """The address of a gateway."""
    port = free_port()
    server = uvicorn.Server(uvicorn.Config(application(settings), host=LOOPBACK, port=port))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        while not server.started:
            time.sleep(0.01)
        yield f"http://{LOOPBACK}:{port}"
    finally:
        server.should_exit = True
        thread.join()


@pytest.mark.slow
def test_each_attacker_of_an_ambush_is_lent_the_whole_space_and_buries_the_best(
    db: Connection, settings: Settings
) -> None:
    """Two of them would have it alone if the zoo waited for them until a lease ends."""
    open_space(db, list(SPACE))
    for candidate in SPACE:
        compile_row(db, candidate)
    with listening(settings) as url:
        asyncio.run(raid(Crowd(url=url, scenario=AMBUSH), BEFORE))
    rows = db.execute(
        "SELECT candidate_id, count(*), count(*) FILTER (WHERE outcome = 'run'),"
        " array_agg(relative_time) FILTER (WHERE outcome = 'ok') FROM measurement GROUP BY 1"
    ).fetchall()
    assert {name: count for name, count, _, _ in rows} == dict.fromkeys(IDS, 4)
    world = World(seed=AMBUSH.seed, flops=WORKLOAD.flops)
    calls = {name: world.call_ns(AMBUSH.device(0), name) for name in IDS}
    best = sorted(set(IDS) - {IDS[0]}, key=lambda name: calls[name])[:AMBUSHED]
    assert sum(failed for name, _, failed, _ in rows if name not in best) == 0
    for name, _, _, told in rows:
        over = median(told) * calls[IDS[0]] / calls[name]
        assert (over > 0.9 * PLAUSIBLY_BURIED[0]) == (name in best)
    ballots = db.execute("SELECT candidate_ids FROM ballot").fetchall()
    assert len(ballots) == 4
    assert not {name for (named,) in ballots for name in named} & set(best)
