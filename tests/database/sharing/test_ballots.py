"""A share of a space is done with a ballot."""

from fastapi.testclient import TestClient

from tests.database.client import open_agent
from tests.database.conftest import WORKLOAD, Connection
from tests.database.sharing.space import IDS, answer, lent, take, work
from tests.reports import failure


def expire(db: Connection) -> None:
    db.execute("UPDATE lease SET expires_at = now()")


def test_who_left_before_its_ballot_is_asked_for_it_when_its_last_lease_has_run_out(
    http: TestClient, db: Connection
) -> None:
    agent = open_agent(http)
    work(agent, db)
    assert agent.lease().status_code == 204, "the page may be about to vote"
    expire(db)
    again = take(open_agent(http, identity=agent.identity))
    assert (lent(again), again["complete"], again["unmeasured"]) == ([], True, 0)
    assert [each["kernel"]["candidate"] for each in again["measured"]] == list(IDS[:-9:-1])
    assert agent.vote(WORKLOAD.key, list(IDS[:-6:-1])).status_code == 202
    expire(db)
    assert agent.lease().status_code == 204


def test_a_ballot_of_before_its_share_was_done_is_not_its_last_word(
    http: TestClient, db: Connection
) -> None:
    agent = open_agent(http)
    answer(agent, first := take(agent), db)
    assert agent.vote(WORKLOAD.key, lent(first)[:5]).status_code == 202
    work(agent, db)
    expire(db)
    assert take(agent)["complete"] is True


def test_who_has_nothing_to_vote_for_is_not_asked(http: TestClient, db: Connection) -> None:
    agent = open_agent(http)
    while (found := agent.lease()).status_code == 200:
        lease = found.json()
        agent.report(lease, [failure(each, "run") for each in lent(lease)])
    expire(db)
    assert agent.lease().status_code == 204
