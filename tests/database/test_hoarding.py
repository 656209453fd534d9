"""Attack by hoarding: identities of one network are lent everything and answer nothing.

What it cost before: 12 identities and a request each a minute. Honest agents of the class got four
candidates in two minutes.
"""

from collections.abc import Iterator
from datetime import timedelta

import pytest

from fixtures.rows import compile_row
from kernelzoo.settings import Settings
from tests.database.client import Agent
from tests.database.conftest import Connection, make_candidate, open_space
from tests.database.strangers import Crowd, answer, crowd_of

SPACE = 24
HOARDERS = 12
EVIL, HONEST = 1, 2


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return settings.model_copy(update={"identities_per_network_per_day": 50})


@pytest.fixture
def crowd(settings: Settings, db: Connection) -> Iterator[Crowd]:
    space = [make_candidate(tile) for tile in range(SPACE)]
    open_space(db, space)
    for candidate in space:
        compile_row(db, candidate)
    with crowd_of(settings) as come:
        yield come


def lent(agent: Agent) -> int:
    """Counts the candidates that an agent is lent now."""
    given = agent.lease()
    return len(given.json()["candidates"]) if given.status_code == 200 else 0


def later(db: Connection, by: timedelta) -> None:
    """Moves all leases and measurements into the past."""
    db.execute(
        "UPDATE lease SET created_at = created_at - %(by)s, expires_at = expires_at - %(by)s",
        {"by": by},
    )
    db.execute("UPDATE measurement SET created_at = created_at - %(by)s", {"by": by})


def measured(agent: Agent, db: Connection) -> int:
    """Counts the candidates that an agent measures, one lease after another, until it is lent
    none."""
    found = 0
    while (given := agent.lease()).status_code == 200 and given.json()["candidates"]:
        answer(agent, db, given.json(), {}, salt=found)
        found += len(given.json()["candidates"])
    return found


def test_a_network_that_hoards_leaves_honest_agents_their_share(
    crowd: Crowd, db: Connection
) -> None:
    hoarders = [crowd(EVIL) for _ in range(HOARDERS)]
    for agent in hoarders:
        while lent(agent):
            pass
    assert measured(crowd(HONEST), db) == SPACE, "a network that holds all of it holds it once"


def test_what_is_held_in_silence_is_lent_again_before_it_expires(
    crowd: Crowd, db: Connection
) -> None:
    for network in (11, 12):
        agent = crowd(network)
        while lent(agent):
            pass
    assert lent(crowd(HONEST)) == 0
    later(db, timedelta(seconds=21))
    assert measured(crowd(HONEST + 1), db) == SPACE


def test_a_network_has_so_many_leases_and_fewer_after_those_it_left(
    crowd: Crowd, db: Connection, settings: Settings
) -> None:
    hoarders = [crowd(EVIL) for _ in range(HOARDERS)]
    first = sum(lent(agent) > 0 for agent in hoarders for _ in range(3))
    assert 0 < first <= settings.leases_per_network
    later(db, timedelta(minutes=2))
    second = [size for agent in hoarders for _ in range(3) if (size := lent(agent))]
    assert len(second) <= max(1, settings.leases_per_network - first)
    later(db, timedelta(minutes=2))
    third = [size for agent in hoarders for _ in range(3) if (size := lent(agent))]
    assert third == [1], "one lease of one candidate for the whole network"
    assert measured(crowd(HONEST), db) == SPACE


def test_a_page_that_was_closed_is_lent_a_whole_lease_after_it_has_answered_one(
    crowd: Crowd, db: Connection
) -> None:
    agent = crowd(HONEST)
    assert lent(agent) == 8
    later(db, timedelta(minutes=2))
    lease = agent.lease().json()
    assert len(lease["candidates"]) == 1
    answer(agent, db, lease, {}, salt=1)
    assert lent(agent) == 8


def test_leases_that_were_left_are_forgotten_after_an_hour(crowd: Crowd, db: Connection) -> None:
    agent = crowd(HONEST)
    assert lent(agent) == 8
    later(db, timedelta(minutes=62))
    assert lent(agent) == 8
