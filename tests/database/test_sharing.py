"""How agents of one device class share a space: what each is lent, and in which role."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from fastapi.testclient import TestClient

from kernelzoo.settings import Settings
from kernelzoo.store import orders
from kernelzoo.store.blocking import execute
from services.aggregator.publishing import Rule
from services.gateway.app import application
from tests.database.client import SESSION, Agent, open_agent
from tests.database.conftest import WORKLOAD, Connection, compile_row, make_candidate, open_space
from tests.reports import failure, ok
from workers.aggregating import tally, verify_lease

SIZE = 24
SPACE = tuple(make_candidate(tile) for tile in range(SIZE))
IDS = tuple(candidate.candidate_id for candidate in SPACE)

Lease = dict[str, Any]


@pytest.fixture
def settings(settings: Settings) -> Settings:
    """All agents are one's own: each candidate needs one measurement."""
    return settings.model_copy(update={"liars": 0.0})


@pytest.fixture
def strangers(settings: Settings) -> Iterator[TestClient]:
    app = application(settings.model_copy(update={"liars": 0.2}))
    with TestClient(app, client=("127.0.0.1", 5000)) as client:
        yield client


@pytest.fixture(autouse=True)
def job(db: Connection) -> int:
    """A planned job of 24 compiled candidates."""
    opened = open_space(db, list(SPACE))
    for candidate in SPACE:
        compile_row(db, candidate)
    return opened


def lent(lease: Lease) -> list[str]:
    return [kernel["candidate"] for kernel in lease["candidates"]]


def take(agent: Agent, limit: int = 8) -> Lease:
    answer = agent.lease(limit)
    assert answer.status_code == 200, answer.text
    lease: Lease = answer.json()
    return lease


def time_of(candidate: str) -> float:
    """Later ones of the space are faster."""
    return 1000.0 - IDS.index(candidate)


def answer(agent: Agent, lease: Lease, db: Connection) -> None:
    """Honestly, and the server finds it right."""
    report = [ok(lease, candidate, time_of(candidate)) for candidate in lent(lease)]
    if report:
        assert agent.report(lease, report).status_code == 202
        verify_lease(db, int(lease["lease"]))


def work(agent: Agent, db: Connection, limit: int = 8) -> list[Lease]:
    """Measures what it is lent until there is nothing to do now."""
    taken: list[Lease] = []
    while (found := agent.lease(limit)).status_code == 200:
        taken.append(found.json())
        answer(agent, taken[-1], db)
    return taken


def roles(db: Connection, lease: Lease) -> dict[str, str]:
    rows = db.execute(
        "SELECT candidate_id, role FROM lease_item WHERE lease_id = %s", (lease["lease"],)
    )
    return dict(rows.fetchall())


def serve(db: Connection, device_class: str, candidate: str, version: int = 1) -> None:
    """As a confirmed entry of a class."""
    db.execute(
        "INSERT INTO zoo_entry (workload_key, device_class, version, candidate_id, state, ballots,"
        " weight, total_weight, relative_time) VALUES (%s, %s, %s, %s, 'confirmed', 5, 5, 5, 0.5)",
        (WORKLOAD.key, device_class, version, candidate),
    )


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
    execute(db, orders.put_order(job, agent.device_class, 0, list(IDS[::-1])))
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
    assert db.execute("SELECT count(*) FROM lease WHERE closing").fetchone() == (3,)
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
    liar, honest = open_agent(strangers), open_agent(strangers)
    best = IDS[-1]
    while (found := liar.lease(16)).status_code == 200:
        lease = found.json()
        liar.report(lease, [ok(lease, each, 5000.0 - time_of(each)) for each in lent(lease)])
    work(honest, db)
    (first, *_) = work(open_agent(strangers), db)
    assert roles(db, first)[best] in ("leader", "control")


def test_what_the_server_rejects_does_not_cover(http: TestClient, db: Connection) -> None:
    liar, honest = open_agent(http), open_agent(http)
    lease = take(liar)
    report = [ok(lease, candidate) for candidate in lent(lease)]
    for each in report:
        each["sampled_entries"][0] += 1.0
    liar.report(lease, report)
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


def test_the_champion_is_lent_once_to_each_identity_even_after_its_share(
    http: TestClient, db: Connection
) -> None:
    first = open_agent(http)
    work(first, db)
    late = open_agent(http)
    work(late, db)
    champion = IDS[3]
    serve(db, first.device_class, champion)
    assert first.lease().status_code == 204
    (lease,) = work(late, db)
    assert roles(db, lease) == {champion: "champion"}
    assert lease["complete"] is True
    newcomer = work(open_agent(http), db)
    assert roles(db, newcomer[-1])[champion] == "champion"


def test_a_winner_of_a_similar_device_comes_first_that_of_the_same_device_before_others(
    http: TestClient, db: Connection
) -> None:
    agent = open_agent(http)
    hardware = {**SESSION["hardware"], "logical_cores": 16}
    similar = open_agent(http, hardware=hardware)
    foreign = open_agent(http, hardware={**hardware, "cpu_architecture": "arm"})
    serve(db, foreign.device_class, IDS[20])
    serve(db, similar.device_class, IDS[21])
    assert roles(db, take(agent))[IDS[21]] == "validate"
    serve(db, agent.device_class.replace("r1-0", "r1-1"), IDS[22])
    lease = take(open_agent(http))
    assert roles(db, lease)[IDS[22]] == "validate"
    assert lent(lease)[0] == IDS[22]
    assert IDS[20] not in lent(lease)


def test_a_gpu_is_similar_to_those_of_its_vendor_and_architecture(
    http: TestClient, db: Connection
) -> None:
    """Of WebAssembly only the processor counts, and one that tells nothing is similar to none."""
    unknown = {**SESSION["hardware"], "cpu_architecture": ""}
    agent = open_agent(http, hardware=unknown)
    other = open_agent(http, hardware={**unknown, "logical_cores": 16})
    serve(db, other.device_class, IDS[21])
    assert set(roles(db, take(agent)).values()) == {"explore"}


def test_newcomers_get_a_control_as_soon_as_three_others_know_one(
    strangers: TestClient, db: Connection
) -> None:
    for _ in range(3):
        work(open_agent(strangers), db)
    leases = work(open_agent(strangers), db)
    given = [list(roles(db, lease).values()) for lease in leases]
    assert [each.count("control") for each in given] == [1] * len(given)


def test_a_control_may_be_measured_again_and_the_report_is_accepted(
    strangers: TestClient, db: Connection
) -> None:
    """Where nothing else is known by enough others."""
    agent = open_agent(strangers)
    for one in [open_agent(strangers) for _ in range(3)]:
        lease = take(one, 1)
        db.execute("UPDATE lease SET expires_at = now() WHERE id <> %s", (lease["lease"],))
        db.execute("UPDATE lease_item SET candidate_id = %s", (IDS[0],))
        answer(one, {**lease, "candidates": [{"candidate": IDS[0]}]}, db)
    first = take(agent)
    assert roles(db, first)[IDS[0]] == "control"
    answer(agent, first, db)
    second = take(agent)
    assert roles(db, second)[IDS[0]] == "control"
    answer(agent, second, db)


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
        agent.vote(WORKLOAD.key, list(IDS[:-3:-1]))
    tally(db, WORKLOAD.key, agents[0].device_class, Rule(quorum=5, liars=0.2))
    (entry,) = http.get("/v1/zoo").json()["entries"]
    assert (entry["state"], entry["candidate"]) == ("confirmed", IDS[-1])
