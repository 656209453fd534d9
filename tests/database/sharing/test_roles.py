"""Agents are lent these beside their part of a space: champions, winners elsewhere, controls."""

from fastapi.testclient import TestClient

from tests.database.client import SESSION, open_agent
from tests.database.conftest import Connection
from tests.database.sharing.space import IDS, answer, lent, roles, serve, take, work


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


QUORUM = 5


def contend(db: Connection, *candidates: str) -> None:
    db.execute("UPDATE zoo_entry SET contenders = %s", (list(candidates),))


def test_what_contends_with_the_champion_is_lent_beside_it_even_after_its_share(
    http: TestClient, db: Connection
) -> None:
    """Until as many as a quorum have reported it, who did its share and who did not."""
    agents = [open_agent(http) for _ in range(QUORUM + 2)]
    work(agents[0], db)
    serve(db, agents[0].device_class, IDS[0])
    for agent in agents[1:]:
        work(agent, db)
    contend(db, IDS[1])
    asked = [lease for agent in agents for lease in work(agent, db)]
    assert all(roles(db, lease) == {IDS[1]: "leader"} for lease in asked)
    assert all(lease["complete"] for lease in asked), "each votes again with more rounds"
    reported = "SELECT count(DISTINCT identity_id) FROM measurement WHERE candidate_id = %s"
    assert db.execute(reported, (IDS[1],)).fetchone() == (QUORUM,)


def test_a_contender_and_a_champion_are_measured_by_the_same(
    http: TestClient, db: Connection
) -> None:
    """By who has measured neither; the lease is its last, since its share was done before."""
    first, second = open_agent(http), open_agent(http)
    work(first, db)
    work(second, db)
    serve(db, first.device_class, IDS[2])
    contend(db, IDS[3])
    (lease,) = work(second, db)
    assert roles(db, lease) == {IDS[3]: "leader", IDS[2]: "champion"}


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
    """For WebAssembly only the processor counts, and one that tells nothing is similar to none."""
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
    """Nothing else is known by enough others."""
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
