"""Panels of the dashboards say of rows that are known what they should, asked as Grafana asks."""

from collections.abc import Sequence
from typing import Any

import psycopg
import pytest
from fastapi.testclient import TestClient
from psycopg.conninfo import make_conninfo

from dashboards.generate import ALL
from dashboards.model import SqlQuery
from kernelzoo.store.roles import READER, make_reader
from tests.database.client import Agent, open_agent
from tests.database.conftest import RELAXED, Connection, make_candidate
from tests.database.test_zoo import measure_and_vote

FIRST, SECOND, THIRD = (
    candidate.candidate_id
    for candidate in (make_candidate(2, RELAXED), make_candidate(0), make_candidate(1))
)

pytestmark = pytest.mark.usefixtures("job_id")


@pytest.fixture
def agents(http: TestClient) -> Sequence[Agent]:
    """Two of one class; the tests' quorum of a tally is two."""
    return open_agent(http), open_agent(http)


@pytest.fixture
def reader(database_url: str, owner: Connection) -> str:
    """Address by which Grafana connects."""
    make_reader(owner)
    return make_conninfo(database_url, user=READER)


def shown(reader: str, title: str) -> list[tuple[Any, ...]]:
    (query,) = (
        asked.query
        for dashboard in ALL
        for panel in dashboard.panels
        for asked in panel.ask
        if panel.title == title and isinstance(asked, SqlQuery)
    )
    with psycopg.connect(reader) as connection:
        return connection.execute(query.encode()).fetchall()


def test_a_class_that_names_one_winner_agrees_wholly(
    db: Connection, agents: Sequence[Agent], reader: str
) -> None:
    for agent in agents:
        measure_and_vote(agent, db, [FIRST, SECOND, THIRD])
    assert shown(reader, "Agreement") == [(1.0,)]
    (disputed,) = shown(reader, "Where the crowd disagrees most")
    assert disputed[-2:] == (2, 1.0)


def test_a_class_whose_voters_differ_agrees_by_the_weights_that_the_winner_has(
    db: Connection, agents: Sequence[Agent], reader: str
) -> None:
    one, other = agents
    measure_and_vote(one, db, [FIRST, SECOND, THIRD])
    measure_and_vote(other, db, [SECOND, FIRST, THIRD])
    # Ten were to be had of two ballots; either kernel has five of one and four of the other.
    assert shown(reader, "Agreement") == [(0.9,)]


def test_without_an_entry_nobody_agrees(reader: str) -> None:
    assert shown(reader, "Agreement") == [(0.0,)]
