"""The list of devices: counted as it happens, answered from memory, bounded in time."""

import asyncio
import json
from dataclasses import replace
from typing import Any

import psycopg
import pytest
from fastapi.testclient import TestClient

from kernelzoo.settings import Settings
from kernelzoo.store import agents
from kernelzoo.store.query import Query
from services.gateway import app
from services.gateway.app import application
from services.gateway.pool import AGENTS
from services.gateway.remembered import Remembered
from tests.database.client import OPERATOR, SESSION, Agent, open_agent
from tests.database.conftest import Connection
from tests.reports import all_ok
from workers.aggregating import verify_lease

pytestmark = pytest.mark.usefixtures("job_id")


def devices(settings: Settings, query: str = "") -> dict[str, Any]:
    """Asks a gateway that remembers nothing."""
    with TestClient(application(settings)) as http:
        answer = http.get(f"/v1/devices{query}")
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def measure(agent: Agent, db: Connection) -> int:
    lease = agent.lease().json()
    report = all_ok(lease)
    assert agent.report(lease, report).status_code == 202
    verify_lease(db, int(lease["lease"]))
    return len(report)


def only(settings: Settings) -> dict[str, Any]:
    (device,) = devices(settings)["devices"]
    return dict(device)


def test_a_device_counts_identities_once_and_every_judged_measurement(
    http: TestClient, db: Connection, settings: Settings
) -> None:
    first = open_agent(http)
    measured = measure(first, db)
    open_agent(http, identity=first.identity, engine={"name": "Chromium", "version": "157.0.1"})
    open_agent(http, identity=first.identity, rho="r1-1")
    measured += measure(open_agent(http), db)
    told = only(settings)
    assert (told["agents"], told["measurements"]) == (2, measured)
    assert told["engines"] == ["Chromium 156", "Chromium 157"]


def test_verifying_a_lease_twice_counts_it_once(
    http: TestClient, db: Connection, settings: Settings
) -> None:
    agent = open_agent(http)
    lease = agent.lease().json()
    report = all_ok(lease)
    agent.report(lease, report)
    for _ in range(2):
        verify_lease(db, int(lease["lease"]))
    assert only(settings)["measurements"] == len(report)


def test_the_list_reads_no_measurement_and_no_session(http: TestClient, db: Connection) -> None:
    """At 417 devices with measurements it took 2.6 s, and grew with their product."""
    open_agent(http)
    question: Query[agents.DeviceRow] = agents.devices(50, 0)
    (row,) = db.execute(f"EXPLAIN (FORMAT JSON) {question.sql}", question.parameters).fetchall()
    read = json.dumps(row)
    assert '"device"' in read
    assert '"measurement"' not in read
    assert '"agent_session"' not in read


def test_the_list_comes_in_pages(http: TestClient, settings: Settings) -> None:
    for cores in (1, 2, 4):
        hardware = {**SESSION["hardware"], "logical_cores": cores}
        http.post("/v1/sessions", json={**SESSION, "hardware": hardware}, headers=OPERATOR)
    latest = devices(settings, "?limit=2")
    rest = devices(settings, "?limit=2&offset=2")
    pages = [[each["logical_cores"] for each in page["devices"]] for page in (latest, rest)]
    assert pages == [[4, 2], [1]]
    assert latest["total"] == rest["total"] == 3


def test_many_readers_within_a_few_seconds_cost_one_query(http: TestClient) -> None:
    before = http.get("/v1/devices")
    open_agent(http)
    assert http.get("/v1/devices").content == before.content
    assert before.headers["cache-control"] == "public, max-age=5"


def test_a_public_read_that_takes_too_long_is_given_up_with_a_sentence(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app, "AGENTS", replace(AGENTS, statement_s=0.2))
    with (
        TestClient(application(settings)) as http,
        psycopg.connect(settings.database_url) as holder,
    ):
        # Whoever reads the table waits for this, as for a scan that is too long.
        holder.execute("LOCK TABLE zoo_entry IN ACCESS EXCLUSIVE MODE")
        for path in ("/v1/zoo", "/v1/keys", "/v1/overview", "/v1/promotions", "/v1/coverage"):
            answer = http.get(path)
            assert answer.status_code == 503, path
            assert "took too long" in answer.json()["detail"]
            assert answer.headers["retry-after"] == "10"
        holder.rollback()
        assert http.get("/v1/zoo").status_code == 200


def test_an_answer_is_made_once_for_all_who_wait_and_a_failure_is_not_kept() -> None:
    made: list[int] = []

    async def slow() -> bytes:
        made.append(1)
        await asyncio.sleep(0.01)
        if len(made) == 1:
            raise ConnectionError
        return b"answer"

    async def ask() -> None:
        remembered: Remembered[bytes] = Remembered(60)
        failed = await asyncio.gather(
            *(remembered.get("x", slow) for _ in range(5)), return_exceptions=True
        )
        assert [type(each) for each in failed] == [ConnectionError] * 5
        answers = await asyncio.gather(*(remembered.get("x", slow) for _ in range(5)))
        assert answers == [b"answer"] * 5
        assert len(made) == 2

    asyncio.run(ask())
