"""A share of a space is done with a ballot."""

from fastapi.testclient import TestClient

from kernelzoo.domain.device import DeviceClass
from services.aggregator.publishing import Rule
from tests.database.client import Agent, open_agent
from tests.database.conftest import WORKLOAD, Connection
from tests.database.sharing.space import IDS, answer, lent, serve, take, work
from tests.reports import failure
from workers.aggregating import tally


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


def test_a_vote_of_ones_own_agents_is_final_once_what_contends_is_measured_by_a_quorum(
    http: TestClient, db: Connection
) -> None:
    """One agent alone has measured the fastest kernel, and all vote for another."""
    agents = [open_agent(http) for _ in range(5)]
    for agent in 3 * agents:
        work(agent, db)
    fast, served = IDS[-1], IDS[-2]
    first = db.execute("SELECT id FROM identity ORDER BY created_at LIMIT 1").fetchall()[0][0]
    other = "DELETE FROM measurement WHERE candidate_id = %s AND identity_id <> %s"
    db.execute(other, (fast, first))
    times = "UPDATE measurement SET relative_time = CASE candidate_id WHEN %s THEN 0.3 ELSE 0.9 END"
    db.execute(times, (fast,))
    serve(db, agents[0].device_class, served)
    for agent in agents:
        assert agent.vote(WORKLOAD.key, [served]).status_code == 202
    assert count(http, db, agents[0]) == (served, [fast], False)
    assert [[lent(lease) for lease in work(agent, db)] for agent in agents] == [[], *[[[fast]]] * 4]
    assert count(http, db, agents[0]) == (fast, [], True)


def count(http: TestClient, db: Connection, agent: Agent) -> tuple[str, list[str], bool]:
    tally(
        db, WORKLOAD.key, DeviceClass.parse(agent.device_class), Rule(quorum=5, malicious_share=0)
    )
    (entry,) = http.get("/v1/zoo").json()["entries"]
    return entry["candidate"], entry["contenders"], entry["final"]
