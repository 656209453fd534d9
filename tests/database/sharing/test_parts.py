"""Agents of one device class share a space: which part each is lent."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from fastapi.testclient import TestClient

from kernelzoo.domain.device import DeviceClass
from kernelzoo.store import orders
from kernelzoo.store.blocking import execute
from services.aggregator.publishing import Rule
from tests.database.client import open_agent
from tests.database.conftest import WORKLOAD, Connection
from tests.database.sharing.space import IDS, SIZE, answer, lent, roles, take, time_of, work
from tests.reports import failure, ok
from workers.aggregating import tally, verify_lease


def test_agents_of_one_class_divide_the_space(http: TestClient) -> None:
    leases = [take(agent) for agent in [open_agent(http) for _ in range(4)]]
    explored = [candidate for lease in leases for candidate in lent(lease)]
    assert len(set(explored)) == len(explored) == 3 + 3 + 3 + 2


def test_agents_of_two_classes_do_not(http: TestClient) -> None:
    first, second = (take(open_agent(http, rho=rho)) for rho in ("r1-0", "r1-1"))
    assert lent(first) == lent(second) == list(IDS[:8])


def test_among_strangers_two_measure_each(strangers: TestClient) -> None:
    explored: list[str] = []
    for agent in [open_agent(strangers) for _ in range(3)]:
        while (found := agent.lease()).status_code == 200:
            explored += lent(found.json())
    assert sorted(explored) == sorted([*IDS, *IDS])


def test_who_has_nothing_else_to_do_helps_and_then_waits_until_the_others_answer(
    http: TestClient, db: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("services.gateway.routes.leases.POLL_S", 60)
    db.execute("DELETE FROM space_point WHERE candidate_id <> ALL (%s)", (list(IDS[:2]),))
    first, helper, waiter = (open_agent(http) for _ in range(3))
    leases = [(first, take(first)), (helper, take(helper)), (helper, take(helper))]
    assert [lent(lease) for _, lease in leases] == [[IDS[0], IDS[1]], [IDS[1]], [IDS[0]]]
    assert waiter.lease().status_code == 204
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(waiter.lease, wait_s=25)
        for agent, lease in leases:
            answer(agent, lease, db)
        found = waiting.result()
    assert set(roles(db, found.json()).values()) == {"leader"}
    assert found.elapsed.total_seconds() < 20, "the last answer did not wake the poll"


def test_what_another_left_unanswered_is_lent_when_its_lease_expires(
    http: TestClient, db: Connection
) -> None:
    first, second = open_agent(http), open_agent(http)
    left = lent(take(first))
    db.execute("UPDATE lease SET expires_at = now()")
    assert lent(take(second))[:4] == left[:4]


def test_candidates_come_in_the_order_of_evaluation_of_the_class(
    http: TestClient, db: Connection, job: int
) -> None:
    agent = open_agent(http)
    execute(db, orders.put_order(job, DeviceClass.parse(agent.device_class), 0, list(IDS[::-1])))
    assert lent(take(agent)) == list(IDS[: SIZE - 9 : -1])


def test_once_the_space_is_covered_the_faster_a_kernel_the_more_measure_it(
    http: TestClient, db: Connection
) -> None:
    agents = [open_agent(http) for _ in range(3)]
    for agent in agents:
        answer(agent, take(agent), db)
    while any(len(work(agent, db, 3)) for agent in agents):
        pass
    rows = db.execute(
        "SELECT candidate_id, count(DISTINCT identity_id) FROM measurement GROUP BY candidate_id"
    )
    by = dict(rows.fetchall())
    assert set(by) == set(IDS)
    assert [by[leader] for leader in IDS[-4:]] == [3] * 4
    assert [by[leader] for leader in IDS[-8:-4]] == [2] * 4
    assert sum(by.values()) < 3 * SIZE / 2 + 8
    assert db.execute("SELECT count(*) FROM lease WHERE complete").fetchone() == (3,)
    closing = [agent.lease().status_code for agent in agents]
    assert closing == [204] * 3


def test_a_late_comer_measures_the_leaders_and_one_that_does_not_lead_and_may_vote(
    http: TestClient, db: Connection
) -> None:
    work(open_agent(http), db)
    late = open_agent(http)
    leases = work(late, db)
    given = [role for lease in leases for role in roles(db, lease).values()]
    assert sorted(given) == ["explore", *["leader"] * 9], "so many have more voters than one"
    assert [lease["complete"] for lease in leases] == [False, False, True]
    assert leases[-1]["unmeasured"] == 0
    assert late.vote(WORKLOAD.key, list(IDS[-5:])).status_code == 202


def test_one_agent_alone_measures_all_of_it(http: TestClient, db: Connection) -> None:
    leases = work(open_agent(http), db)
    assert [candidate for lease in leases for candidate in lent(lease)] == list(IDS)
    assert [lease["complete"] for lease in leases] == [False, False, True]


def test_a_kernel_that_one_of_two_calls_slow_leads_all_the_same(
    strangers: TestClient, db: Connection
) -> None:
    attacker, honest = open_agent(strangers), open_agent(strangers)
    best = IDS[-1]
    while (found := attacker.lease(16)).status_code == 200:
        lease = found.json()
        attacker.report(lease, [ok(lease, each, 5000.0 - time_of(each)) for each in lent(lease)])
    work(honest, db)
    (first, *_) = work(open_agent(strangers), db)
    assert roles(db, first)[best] in ("leader", "control")


def test_what_the_server_rejects_does_not_cover(http: TestClient, db: Connection) -> None:
    attacker, honest = open_agent(http), open_agent(http)
    lease = take(attacker)
    report = [ok(lease, candidate) for candidate in lent(lease)]
    for each in report:
        each["sampled_entries"][0] += 1.0
    attacker.report(lease, report)
    verify_lease(db, int(lease["lease"]))
    assert lent(take(honest))[:4] == lent(lease)[:4]


def test_a_failure_covers_and_does_not_lead(http: TestClient, db: Connection) -> None:
    first = open_agent(http)
    lease = take(first)
    first.report(lease, [failure(candidate, "run") for candidate in lent(lease)])
    work(first, db)
    given = [roles(db, lease) for lease in work(open_agent(http), db)]
    leaders = {name for each in given for name, role in each.items() if role == "leader"}
    assert set(IDS[-8:]) <= leaders
    assert not leaders & set(lent(lease))


def test_agents_that_ask_at_one_moment_are_lent_different_candidates(http: TestClient) -> None:
    agents = [open_agent(http) for _ in range(8)]
    with ThreadPoolExecutor(8) as pool:
        leases = list(pool.map(lambda agent: take(agent, 3), agents))
    explored = [candidate for lease in leases for candidate in lent(lease)]
    assert len(set(explored)) == len(explored)


def test_a_shared_space_still_confirms_the_fastest(http: TestClient, db: Connection) -> None:
    agents = [open_agent(http) for _ in range(5)]
    for _ in range(4):
        for agent in agents:
            work(agent, db, 4)
    for agent in agents:
        agent.vote(WORKLOAD.key, list(IDS[:-3:-1]), best=0.4)
    tally(
        db,
        WORKLOAD.key,
        DeviceClass.parse(agents[0].device_class),
        Rule(quorum=5, malicious_share=0.2),
    )
    (entry,) = http.get("/v1/zoo").json()["entries"]
    assert (entry["state"], entry["candidate"]) == ("confirmed", IDS[-1])
