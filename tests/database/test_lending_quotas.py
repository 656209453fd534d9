"""Strangers can have so much stored in a day: by network, by class, and by key."""

import pytest

from kernelzoo.settings import Settings
from kernelzoo.store import lending_quotas
from kernelzoo.store.blocking import execute
from services.gateway.loans import is_used_up
from tests.database.client import Agent, open_agent
from tests.database.conftest import Connection
from tests.database.strangers import Crowd, answer, more

OF_NETWORK, OF_CLASS, OF_KEY = 6, 12, 9
LEASED = 3
"""Candidates of the tests' job that are compiled: the most that a lease can exceed a bound by."""

pytestmark = pytest.mark.usefixtures("job_id")


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return settings.model_copy(
        update={
            "lent_per_network_per_day": OF_NETWORK,
            "lent_per_class_per_day": OF_CLASS,
            "lent_per_key_per_day": OF_KEY,
            # So that what bounds here is what is tested.
            "identities_per_network_per_day": 100,
            "classes_per_identity_per_day": 100,
            "classes_per_network_per_day": 100,
        }
    )


def stored(db: Connection) -> int:
    row = db.execute("SELECT count(*) FROM measurement").fetchone()
    assert row is not None
    return int(row[0])


def measure(agent: Agent, db: Connection, salt: float) -> int:
    """The status of the first request for a lease that is not granted."""
    while (found := agent.lease()).status_code == 200:
        lease = found.json()
        if lease["candidates"]:
            answer(agent, db, lease, {}, salt + int(lease["lease"]))
    return found.status_code


def test_six_networks_that_invent_classes_store_no_more_than_their_share(
    come: Crowd, db: Connection
) -> None:
    """Every class that does not exist would be measured anew: 22,000 measurements in 74 s."""
    for network in range(6):
        first = come(network, rho="r1-000")
        for number in range(5):
            measure(more(first, rho=f"r1-{network:03b}{number:03b}"), db, network)
    assert stored(db) <= 6 * (OF_NETWORK + LEASED - 1)


def test_a_network_that_had_its_share_is_told_and_others_are_lent_on(
    come: Crowd, db: Connection
) -> None:
    first = come(1, rho="r1-00")
    for number in range(OF_NETWORK // LEASED):
        measure(more(first, rho=f"r1-{number:02b}"), db, number)
    refused = more(first, rho="r1-11").lease()
    assert refused.status_code == 429
    assert "come back tomorrow" in refused.json()["detail"]
    assert refused.headers["retry-after"] == "3600"
    assert come(2, rho="r1-11").lease().status_code == 200
    db.execute("UPDATE lending_quota SET day = day - 1")
    assert more(first, rho="r1-10").lease().status_code == 200, "the next day"


def test_a_key_that_many_networks_measure_is_lent_no_more_that_day(
    come: Crowd, db: Connection
) -> None:
    asked = [come(network) for network in range(OF_CLASS)]
    for place, agent in enumerate(asked):
        # What does not count is to be measured again, without end.
        db.execute("UPDATE measurement SET verdict = 'rejected'")
        assert measure(agent, db, place) in (204, 429)
    lent = db.execute("SELECT scope, max(candidates) FROM lending_quota GROUP BY scope").fetchall()
    assert dict(lent)["key"] <= OF_KEY + LEASED - 1
    assert dict(lent)["class"] <= OF_CLASS + LEASED - 1
    assert stored(db) <= OF_KEY + LEASED - 1


def test_the_operators_agents_have_no_share_to_use_up(come: Crowd, db: Connection) -> None:
    for network in range(4):
        measure(come(network), db, network)
    http = come(9).http
    fleet = [open_agent(http, rho=f"r1-{number:03b}") for number in range(5)]
    before = db.execute("SELECT sum(candidates) FROM lending_quota").fetchone()
    for agent in fleet:
        measure(agent, db, 1)
    assert db.execute("SELECT sum(candidates) FROM lending_quota").fetchone() == before


def test_who_is_in_quarantine_is_answered_the_same_until_the_share_is_used_up(
    come: Crowd, db: Connection
) -> None:
    told: list[list[tuple[int, int]]] = []
    for network, best_ns in ((1, 1000.0), (2, 1e-3)):
        first, statuses = come(network, rho="r1-0000"), []
        for number in range(4):
            agent = more(first, rho=f"r1-{network:02b}{number:02b}")
            found = agent.lease()
            lent = found.json().get("candidates", [])
            statuses.append((found.status_code, len(lent)))
            if lent:
                times = {each["candidate"]: best_ns for each in lent}
                answer(agent, db, found.json(), times, number)
        told.append(statuses)
    assert told[0] == told[1]
    assert db.execute(
        "SELECT count(*) > 0 FROM measurement WHERE verdict = 'quarantined'"
    ).fetchone() == (True,)


def test_days_that_are_over_are_forgotten(come: Crowd, db: Connection) -> None:
    measure(come(1), db, 1)
    db.execute("UPDATE lending_quota SET day = day - 2")
    execute(db, lending_quotas.forget_earlier_days())
    assert db.execute("SELECT count(*) FROM lending_quota").fetchone() == (0,)


class TestSharesOfNetworks:
    """Attack by few networks: what a class may be lent in a day is used up before others come."""

    @pytest.fixture
    def settings(self, settings: Settings) -> Settings:
        return settings.model_copy(
            update={
                "lent_per_network_per_day": 1000,
                "lent_per_class_per_day": 60,
                "lent_per_key_per_day": 30,
                "lent_share": 0.2,
            }
        )

    def hoard(self, come: Crowd, db: Connection, network: int) -> int:
        """All that identities of one network are lent of the key."""
        agent = come(network)
        for _ in range(20):
            # What does not count is to be measured again, without end.
            db.execute("UPDATE measurement SET verdict = 'rejected'")
            measure(agent, db, network)
            agent = more(agent)
        row = db.execute(
            "SELECT coalesce(sum(candidates), 0) FROM lending_quota WHERE scope = 'network on key'"
            " AND name LIKE (SELECT network FROM identity ORDER BY created_at DESC LIMIT 1) || '%'"
        ).fetchone()
        assert row is not None
        return int(row[0])

    def test_a_few_networks_leave_most_of_it_to_those_that_come_later(
        self, come: Crowd, db: Connection
    ) -> None:
        lent = [self.hoard(come, db, network) for network in range(6)]
        assert all(0 < each <= 0.2 * 30 + LEASED - 1 for each in lent), lent
        assert lent == sorted(lent, reverse=True), "each has a part of what others left"
        assert come(9).lease().status_code == 200, "and who comes now is lent something"


def test_it_takes_dozens_of_networks_to_use_a_quota_up() -> None:
    taken: list[int] = []
    while sum(taken) < 2000:
        own = 0
        while not is_used_up(2000, sum(taken) + own, own, 0.1):
            own += 1
        taken.append(own)
    assert (taken[0], taken[9], taken[29]) == (200, 78, 9)
    assert len(taken) > 40
    assert sum(taken) == 2000
