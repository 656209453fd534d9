"""The identities of a class are counted as their sessions come and go, against what these say."""

import pytest
from fastapi.testclient import TestClient

from kernelzoo.domain.device import DeviceClass
from kernelzoo.domain.workload import WorkloadKey
from kernelzoo.store import curves, keys
from kernelzoo.store.blocking import fetch_one
from tests.database.client import SESSION, Agent, open_agent
from tests.database.conftest import WORKLOAD, Connection
from tests.database.rows_read import rows_read
from tests.database.test_retention import age, remove
from tests.reports import ok

COUNTED = """
    SELECT c.device_class, count(DISTINCT s.identity_id),
           count(DISTINCT s.identity_id) FILTER (WHERE NOT i.operated)
    FROM device_class c
    LEFT JOIN agent_session s ON s.device_class = c.device_class
    LEFT JOIN identity i ON i.id = s.identity_id
    GROUP BY c.device_class ORDER BY c.device_class
"""
KEPT = "SELECT device_class, crowd, strangers FROM device_class ORDER BY device_class"
OTHER_CLASS = {"rho": "r1-1"}


def stranger(http: TestClient, identity: str | None = None) -> Agent:
    given = http.post("/v1/sessions", json={**SESSION, "identity": identity}).json()
    return Agent(http, given["token"], given["identity"], given["device_class"])


def kept(db: Connection) -> list[tuple[int, int]]:
    """Crowd and strangers of each class, which are what its sessions say."""
    found = db.execute(KEPT).fetchall()
    assert found == db.execute(COUNTED).fetchall()
    return [(crowd, strangers) for _, crowd, strangers in found]


@pytest.mark.usefixtures("job_id")
def test_an_identity_is_counted_once_on_each_class_until_its_last_session_is_removed(
    http: TestClient, db: Connection
) -> None:
    own = open_agent(http)
    assert kept(db) == [(1, 0)]
    first, second = stranger(http), stranger(http)
    first = stranger(http, first.identity)
    open_agent(http, identity=own.identity, **OTHER_CLASS)
    assert kept(db) == [(3, 2), (1, 0)]
    assert http.post("/v1/identities/forget", json={"identity": first.identity}).is_success
    assert kept(db) == [(2, 1), (1, 0)]
    age(db)
    open_agent(http, identity=own.identity)
    remove(db)
    assert kept(db) == [(1, 0)]
    assert stranger(http, second.identity).identity
    assert kept(db) == [(2, 1)]


def test_the_crowd_of_a_key_and_of_a_job_is_told_without_its_sessions(
    http: TestClient, db: Connection, job_id: int
) -> None:
    agent = open_agent(http)
    lease = agent.lease(limit=1).json()
    (name,) = (kernel["candidate"] for kernel in lease["candidates"])
    assert agent.report(lease, [ok(lease, name, 5e5)]).status_code == 202
    for _ in range(10):
        open_agent(http, identity=agent.identity)
    of_key = keys.crowd(WorkloadKey(WORKLOAD.key), DeviceClass.parse(agent.device_class))
    found = fetch_one(db, of_key)
    assert found is not None
    assert (found.identities, found.strangers) == (1, 0)
    of_job = curves.by_class(job_id, 10)
    measured = fetch_one(db, of_job)
    assert measured is not None
    assert (measured.identities, measured.strangers) == (1, 0)
    assert rows_read(db, of_key, "agent_session") == 0
    assert rows_read(db, of_job, "agent_session") == 0
