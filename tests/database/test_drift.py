"""An entry goes through these when a browser has a new major version."""

from typing import Any

import pytest
from fastapi.testclient import TestClient

from fixtures.rows import compile_row
from kernelzoo.domain.device import DeviceClass
from services.aggregator.publishing import Rule
from tests.database.client import Agent, open_agent
from tests.database.conftest import RELAXED, WORKLOAD, Connection, make_candidate
from tests.reports import ok
from workers.aggregating import tally, verify_lease

pytestmark = pytest.mark.usefixtures("job_id")

RULE = Rule(quorum=2, malicious_share=0)
DEFAULT, SECOND, RELAXED_ONE = (
    make_candidate(0).candidate_id,
    make_candidate(1).candidate_id,
    make_candidate(2, RELAXED).candidate_id,
)


def browser(http: TestClient, version: str, identity: str | None = None) -> Agent:
    return open_agent(http, identity=identity, engine={"name": "Chromium", "version": version})


def measure(db: Connection, agent: Agent, times_ns: dict[str, float]) -> list[str]:
    """Measures what is lent until there is nothing to do, the reference taking 2,000 ns; gives
    what was lent.
    """
    lent: list[str] = []
    while (answer := agent.lease()).status_code == 200:
        lease = answer.json()
        names = [kernel["candidate"] for kernel in lease["candidates"]]
        if names:
            agent.report(lease, [ok(lease, each, times_ns.get(each, 2000.0)) for each in names])
            verify_lease(db, int(lease["lease"]))
        lent += names
    return lent


def vote(db: Connection, agent: Agent, *ranking: str) -> None:
    assert agent.vote(WORKLOAD.key, list(ranking)).status_code == 202
    tally(db, WORKLOAD.key, DeviceClass.parse(agent.device_class), RULE)


def entry(http: TestClient) -> dict[str, Any]:
    (listed,) = http.get("/v1/zoo").json()["entries"]
    return dict(listed)


@pytest.fixture
def crowd(http: TestClient, db: Connection) -> list[Agent]:
    """Two agents in Chromium 156 that measured all there was and confirmed SECOND, a while ago."""
    agents = [browser(http, "156.0.1") for _ in range(2)]
    for agent in agents:
        assert set(measure(db, agent, {SECOND: 1000.0})) == {DEFAULT, SECOND, RELAXED_ONE}
        vote(db, agent, SECOND)
    assert entry(http)["state"] == "confirmed"
    # Browsers are not updated within a minute.
    db.execute("UPDATE lease SET expires_at = now()")
    return agents


def test_an_entry_tells_the_engines_in_which_it_was_measured(
    http: TestClient, crowd: list[Agent]
) -> None:
    votes = [{"name": "Chromium", "major": 156, "ballots": 2}]
    assert entry(http)["evidence"]["engines"] == votes
    assert entry(http)["reason"] == ""
    answer = http.get(f"/v1/zoo/{WORKLOAD.key}/{crowd[0].device_class}").json()
    assert answer["entries"][0]["wasm"]["evidence"]["engines"] == votes


def test_a_new_major_version_measures_the_champion_and_the_default_again_and_nothing_else(
    http: TestClient, db: Connection, crowd: list[Agent]
) -> None:
    updated = browser(http, "157.0.1", crowd[0].identity)
    assert sorted(measure(db, updated, {})) == sorted([DEFAULT, SECOND])
    assert measure(db, updated, {}) == []


def test_who_had_done_its_share_measures_them_again_however_many_others_have(
    http: TestClient, db: Connection, crowd: list[Agent]
) -> None:
    compile_row(db, make_candidate(3))
    for agent in (*crowd, browser(http, "156.0.1")):
        measure(db, agent, {SECOND: 1000.0})
    assert db.execute("SELECT count(*) FROM lease WHERE complete AND answered").fetchone() == (3,)
    updated = browser(http, "157.0.1", crowd[0].identity)
    assert sorted(measure(db, updated, {})) == sorted([DEFAULT, SECOND])
    assert measure(db, updated, {}) == []
    assert db.execute("SELECT count(*) FROM lease WHERE complete AND answered").fetchone() == (4,)


def test_a_champion_that_follows_its_new_share_is_measured_again_too(
    http: TestClient, db: Connection, crowd: list[Agent]
) -> None:
    compile_row(db, make_candidate(3))
    updated = browser(http, "157.0.1", crowd[0].identity)
    for agent in (crowd[1], updated):
        measure(db, agent, {SECOND: 1000.0})
    assert measure(db, updated, {}) == []
    db.execute("UPDATE zoo_entry SET candidate_id = %s, published_at = now()", (RELAXED_ONE,))
    assert measure(db, updated, {}) == [RELAXED_ONE]


def test_those_of_its_own_ballot_are_measured_again_too(
    http: TestClient, db: Connection, crowd: list[Agent]
) -> None:
    vote(db, crowd[0], SECOND, RELAXED_ONE)
    updated = browser(http, "157.0.1", crowd[0].identity)
    assert sorted(measure(db, updated, {})) == sorted([DEFAULT, SECOND, RELAXED_ONE])


@pytest.mark.parametrize("version", ["156.0.2", "155.0.1"])
def test_another_version_that_is_no_newer_major_measures_nothing_again(
    http: TestClient, db: Connection, crowd: list[Agent], version: str
) -> None:
    assert measure(db, browser(http, version, crowd[0].identity), {}) == []


def test_a_regression_in_a_new_version_demotes_the_champion_with_the_reason(
    http: TestClient, db: Connection, crowd: list[Agent]
) -> None:
    first, second = (browser(http, "157.0.1", each.identity) for each in crowd)
    for agent in (first, second):
        measure(db, agent, {SECOND: 4000.0, DEFAULT: 2000.0})
    vote(db, first, DEFAULT)
    assert entry(http)["candidate"] == SECOND
    vote(db, second, DEFAULT)
    demoted = entry(http)
    assert (demoted["candidate"], demoted["state"]) == (DEFAULT, "confirmed")
    assert demoted["evidence"]["engines"] == [{"name": "Chromium", "major": 157, "ballots": 2}]


def test_what_was_measured_in_the_old_version_does_not_speak_for_the_new_one(
    http: TestClient, db: Connection, crowd: list[Agent]
) -> None:
    updated = browser(http, "157.0.1", crowd[0].identity)
    vote(db, updated, SECOND)
    votes = entry(http)["evidence"]
    assert votes["engines"] == [{"name": "Chromium", "major": 156, "ballots": 2}]
