"""An identity can be erased, by the operator or by its own browser; what was published stays."""

import pytest
from fastapi.testclient import TestClient
from psycopg import sql

from kernelzoo.domain.device import DeviceClass
from services.aggregator.publishing import Rule
from tests.database.client import OPERATOR, SESSION, Agent, open_agent
from tests.database.conftest import RELAXED, WORKLOAD, Connection, make_candidate
from tests.database.strangers import Crowd
from tests.database.test_zoo import manifest_entry, measure_and_vote
from tests.reports import all_ok
from workers.aggregating import tally, verify_lease

RANKING = [each.candidate_id for each in (make_candidate(2, RELAXED), *map(make_candidate, (0, 1)))]

pytestmark = pytest.mark.usefixtures("job_id")


def number(db: Connection, agent: Agent) -> str:
    row = db.execute(
        "SELECT identity_id FROM agent_session WHERE device_class = %s ORDER BY id DESC LIMIT 1",
        (agent.device_class,),
    ).fetchone()
    assert row is not None
    return str(row[0])


def rows_naming(db: Connection, identity: str) -> dict[str, int]:
    """Counts rows in every table with a column for identities, those that come later among them."""
    tables = db.execute(
        "SELECT table_name FROM information_schema.columns"
        " WHERE column_name = 'identity_id' AND table_schema = 'public'"
    ).fetchall()
    found = {}
    for (table,) in tables:
        query = sql.SQL("SELECT count(*) FROM {} WHERE identity_id = %s")
        row = db.execute(query.format(sql.Identifier(table)), (identity,)).fetchone()
        assert row is not None
        found[table] = int(row[0])
    return found


def forget(agent: Agent) -> dict[str, int]:
    answer = agent.http.post("/v1/identities/forget", json={"identity": agent.identity})
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def test_erasing_leaves_no_row_of_an_identity_and_what_it_voted_for_is_served_on(
    http: TestClient, db: Connection
) -> None:
    for _ in range(2):
        agent = open_agent(http)
        measure_and_vote(agent, db, RANKING)
    identity = number(db, agent)
    path = f"/v1/identities/{identity}"
    served = manifest_entry(http, agent.device_class)
    held = http.get(path, headers=OPERATOR).json()
    named = rows_naming(db, identity)
    assert held == {
        "sessions": named["agent_session"],
        "leases": named["lease"],
        "entries": 1,
        "measurements": named["measurement"],
        "ballots": named["ballot"],
    }
    assert min(named.values()) > 0
    assert http.delete(path, headers=OPERATOR).json() == held
    assert set(rows_naming(db, identity).values()) == {0}
    assert http.get(path, headers=OPERATOR).status_code == 404
    assert http.delete(path, headers=OPERATOR).status_code == 404
    tally(
        db, WORKLOAD.key, DeviceClass.parse(agent.device_class), Rule(quorum=2, malicious_share=0)
    )
    after = manifest_entry(http, agent.device_class)
    assert after["kernel"] == served["kernel"]
    assert (after["state"], after["version"]) == ("confirmed", served["version"])
    device = http.get("/v1/devices").json()["devices"][0]
    assert (device["agents"], device["measurements"]) == (2, 6)


def test_only_the_operator_looks_at_identities_and_erases_those_of_others(
    http: TestClient, db: Connection
) -> None:
    agent = open_agent(http)
    path = f"/v1/identities/{number(db, agent)}"
    assert http.get(path).status_code == 401
    assert http.delete(path).status_code == 401
    assert http.delete("/v1/identities/me", headers=OPERATOR).status_code == 422
    forged = http.post("/v1/identities/forget", json={"identity": agent.token})
    assert forged.status_code == 401, "a session's token opens no identity"


def test_a_browser_that_asks_to_be_forgotten_is_a_stranger_afterwards(
    http: TestClient, db: Connection
) -> None:
    agent = open_agent(http)
    lease = agent.lease().json()
    assert forget(agent) == {
        "sessions": 1,
        "leases": 1,
        "measurements": 0,
        "ballots": 0,
        "entries": 0,
    }
    assert forget(agent)["sessions"] == 0, "asked again, there is nothing"
    assert agent.report(lease, all_ok(lease)).status_code == 404
    refused = agent.lease()
    assert refused.status_code == 401
    assert "open a new session" in refused.json()["detail"]
    back = open_agent(http, identity=agent.identity)
    (known,) = db.execute("SELECT count(*) FROM identity WHERE erased_at IS NULL").fetchall()
    assert known == (1,)
    assert back.lease().status_code == 200


def test_being_forgotten_gives_a_network_no_more_identities(come: Crowd, db: Connection) -> None:
    """The tests' cap is two a day."""
    for _ in range(2):
        forget(come(1))
    refused = come(2).http.post("/v1/sessions", json=SESSION)
    assert refused.status_code == 201
    with pytest.raises(AssertionError, match="2 identities within a day"):
        come(1)
    db.execute("UPDATE identity SET erased_at = erased_at - interval '25 hours'")


def test_who_is_quarantined_is_told_the_same_when_it_is_forgotten(
    come: Crowd, db: Connection
) -> None:
    told = []
    for network, best_ns in ((1, 1000.0), (2, 1e-3)):
        agent = come(network, rho=f"r1-{network - 1}")
        lease = agent.lease().json()
        report = all_ok(lease)
        report[0] |= {"samples_ns": [best_ns, best_ns, best_ns]}
        agent.report(lease, report)
        verify_lease(db, int(lease["lease"]))
        told.append(forget(agent))
    assert told[0] == told[1]
