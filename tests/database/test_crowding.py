"""Attack by readers: questions that take long hold every connection, and page loads wait for one.

What it cost before: 30 readers. Manifests that were not in memory took 9 s, and the gateway said
that it was not ready.
"""

from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
from fastapi.testclient import TestClient

from services.gateway.pool import AGENTS
from tests.database.client import open_agent
from tests.database.conftest import WORKLOAD, Connection
from tests.running import eventually

READERS = 30


def waiting(db: Connection) -> int:
    row = db.execute("SELECT count(*) FROM pg_locks WHERE NOT granted").fetchone()
    assert row is not None
    return int(row[0])


@pytest.mark.usefixtures("job_id")
def test_page_loads_and_readiness_do_not_wait_for_readers(
    http: TestClient, db: Connection, database_url: str
) -> None:
    device_class = open_agent(http).device_class
    with psycopg.connect(database_url) as holder, ThreadPoolExecutor(READERS) as readers:
        # Whoever reads the table waits for this, as for a scan that is too long.
        holder.execute("LOCK TABLE device_class IN ACCESS EXCLUSIVE MODE")
        asked = [
            readers.submit(http.get, f"/v1/devices?limit={number + 1}") for number in range(READERS)
        ]
        eventually(lambda: waiting(db) >= AGENTS.connections, "all connections are held")
        miss = http.get(f"/v1/zoo/{WORKLOAD.key}/{device_class}")
        ready = http.get("/readyz")
        assert not any(each.done() for each in asked), "they are still being held"
        holder.rollback()
        assert (miss.status_code, ready.status_code) == (200, 200)
        assert {each.result().status_code for each in asked} == {200}


def test_a_gateway_whose_database_is_gone_is_not_ready(http: TestClient, owner: Connection) -> None:
    eventually(lambda: http.get("/readyz").status_code == 200, "it is ready")
    owner.execute("ALTER TABLE workload RENAME TO gone")
    owner.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE query LIKE 'LISTEN%' AND datname = current_database()"
    )
    eventually(lambda: http.get("/readyz").status_code == 503, "it is not ready")
    owner.execute("ALTER TABLE gone RENAME TO workload")
    eventually(lambda: http.get("/readyz").status_code == 200, "it is ready again")
