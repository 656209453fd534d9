"""A report and a ballot come again and again: what was counted is not counted anew.

What one network cost before: each of its requests a tally, and honest ones waited 72 s for theirs.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from threading import Event, Thread
from typing import Any, cast

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from httpx2 import Response
from psycopg_pool import AsyncConnectionPool
from starlette.types import Receive, Scope, Send

from kernelzoo import jobs
from kernelzoo.domain.device import DeviceClass
from kernelzoo.metrics import HTTP_REQUESTS
from kernelzoo.settings import Settings
from kernelzoo.store import tallies
from kernelzoo.store.blocking import connected, execute, fetch_all
from services.aggregator.publishing import Rule
from services.gateway.app import application
from services.gateway.middleware import Counted
from services.gateway.state import State
from tests.database.client import Agent, open_agent
from tests.database.conftest import WORKLOAD, Connection, make_candidate
from tests.reports import all_ok
from tests.running import eventually
from workers import aggregating
from workers.aggregating import newly_asked, tally, verify_lease
from workers.maintenance import stalled

pytestmark = pytest.mark.usefixtures("job_id")

RULE = Rule(quorum=2, malicious_share=0)
FIRST, SECOND = (make_candidate(number).candidate_id for number in (0, 1))
TIMES = 20


@dataclass(frozen=True, slots=True)
class Sent:
    messages: list[jobs.Message] = field(default_factory=list)

    def __call__(self, message: jobs.Message) -> None:
        self.messages.append(message)

    @property
    def tallies(self) -> int:
        return sum(message.name == "tally" for message in self.messages)


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> Sent:
    made = Sent()
    monkeypatch.setattr(jobs, "celery_sender", lambda _: made)
    return made


@pytest.fixture
def gateway(settings: Settings, sent: Sent) -> Iterator[TestClient]:
    assert sent.tallies == 0
    with TestClient(application(settings), client=("127.0.0.1", 5000)) as client:
        yield client


@pytest.fixture
def agent(gateway: TestClient, db: Connection) -> Agent:
    """Has measured all that it may vote for."""
    made = open_agent(gateway)
    while (answer := made.lease()).status_code == 200:
        lease = answer.json()
        assert made.report(lease, all_ok(lease)).status_code == 202
        verify_lease(db, int(lease["lease"]))
    return made


def in_other_bytes(body: object, number: int) -> dict[str, Any]:
    """Adds spaces, as the same byte for byte would not come as far as the database."""
    headers = {"Content-Type": "application/json"}
    return {"content": json.dumps(body) + " " * number, "headers": headers}


def vote(agent: Agent, ranking: list[str], number: int) -> None:
    lines = [{"candidate": candidate, "relative_time": 0.5} for candidate in ranking]
    sent = in_other_bytes({"workload": WORKLOAD.key, "lines": lines}, number)
    sent["headers"] |= agent.bearer
    assert agent.http.put("/v1/ballots", **sent).status_code == 202


def report(
    gateway: TestClient, db: Connection, candidate: str, device_class: str, number: int = 0
) -> None:
    row = db.execute(
        "SELECT artifact_sha256 FROM candidate WHERE candidate_id = %s", (candidate,)
    ).fetchone()
    assert row is not None
    body = {
        "workload": WORKLOAD.key,
        "device_class": device_class,
        "artifact": row[0],
        "stage": "run",
        "detail": "",
    }
    assert gateway.post("/v1/failures", **in_other_bytes(body, number)).status_code == 202


def count(db: Connection, agent: Agent) -> None:
    tally(db, WORKLOAD.key, DeviceClass.parse(agent.device_class), RULE)


def test_the_same_report_again_is_counted_once(
    gateway: TestClient, agent: Agent, db: Connection, sent: Sent
) -> None:
    for number in range(TIMES):
        report(gateway, db, SECOND, agent.device_class, number)
    assert sent.tallies == 1
    count(db, agent)
    for number in range(TIMES):
        report(gateway, db, SECOND, agent.device_class, number)
    assert sent.tallies == 1, "what was counted before is the same"


def test_the_same_ballot_again_is_counted_once(agent: Agent, db: Connection, sent: Sent) -> None:
    for number in range(TIMES):
        vote(agent, [FIRST, SECOND], number)
    count(db, agent)
    for number in range(TIMES):
        vote(agent, [FIRST, SECOND], number)
    assert sent.tallies == 1
    vote(agent, [SECOND, FIRST], 0)
    assert sent.tallies == 2


def test_the_same_ballot_again_writes_nothing(agent: Agent, db: Connection) -> None:
    """To lock the row that it would replace is written to the disk before the answer."""

    def row() -> tuple[object, ...]:
        found = db.execute("SELECT xmin::text, xmax::text, ctid::text FROM ballot").fetchone()
        assert found is not None
        return tuple(found)

    vote(agent, [FIRST, SECOND], 0)
    before = row()
    vote(agent, [FIRST, SECOND], 1)
    assert row() == before
    vote(agent, [SECOND, FIRST], 0)
    assert row() != before
    body = {
        "workload": WORKLOAD.key,
        "lines": [{"candidate": FIRST, "relative_time": 0.5}],
        "paired": True,
    }
    filed = agent.http.put("/v1/ballots", json=body, headers=agent.bearer)
    assert filed.status_code == 202
    before = row()
    assert agent.vote(WORKLOAD.key, [SECOND]).status_code == 202, "which replaces no paired one"
    assert row() == before


def test_the_same_byte_for_byte_asks_the_database_nothing(
    gateway: TestClient, agent: Agent, db: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sixteen networks that sent theirs as fast as they could held up page loads eightfold."""
    monkeypatch.setattr("services.gateway.repeats.REPEATED_S", 3600.0)
    other = open_agent(gateway, rho="r1-1")
    lease = other.lease(limit=1).json()
    assert other.report(lease, all_ok(lease)).status_code == 202
    assert other.report(lease, all_ok(lease)).status_code == 409
    report(gateway, db, SECOND, agent.device_class)
    for _ in range(2):
        # The gateway hears of the first as of one that was filed elsewhere.
        assert agent.vote(WORKLOAD.key, [FIRST]).status_code == 202
        eventually(lambda: heard(gateway, agent) > 0, "it has")
    monkeypatch.setattr(AsyncConnectionPool, "connection", None)
    for _ in range(100):
        assert agent.vote(WORKLOAD.key, [FIRST]).status_code == 202
        assert other.report(lease, all_ok(lease)).status_code == 409
        report(gateway, db, SECOND, agent.device_class)


@dataclass(slots=True)
class Passed:
    """Counts the requests that come as far as a layer."""

    requests: int = 0


@pytest.fixture
def passed(monkeypatch: pytest.MonkeyPatch) -> Passed:
    """Counts at the outermost layer that an answer passes."""
    counted, passed = Counted.__call__, Passed()

    async def count_passing(layer: Counted, scope: Scope, receive: Receive, send: Send) -> None:
        passed.requests += 1
        await counted(layer, scope, receive, send)

    monkeypatch.setattr(Counted, "__call__", count_passing)
    return passed


def answers_counted(route: str, family: str) -> float:
    return float(HTTP_REQUESTS.labels(route, family)._value.get())


def test_the_same_byte_for_byte_passes_no_layer_and_is_answered_alike(
    gateway: TestClient, agent: Agent, passed: Passed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each layer takes some 20 µs of a request, of a thousand a second."""
    monkeypatch.setattr("services.gateway.repeats.REPEATED_S", 3600.0)

    def vote_from(headers: dict[str, str]) -> Response:
        body = {"workload": WORKLOAD.key, "lines": [{"candidate": FIRST, "relative_time": 0.5}]}
        return agent.http.put("/v1/ballots", json=body, headers=agent.bearer | headers)

    assert vote_from({}).status_code == 202
    eventually(lambda: heard(gateway, agent) > 0, "the gateway heard of it")
    first = vote_from({})
    passed_before, counted_before = passed.requests, answers_counted("/v1/ballots", "2xx")
    for _ in range(TIMES):
        again = vote_from({})
        assert (again.status_code, again.content) == (202, first.content)
        assert dict(again.headers) == dict(first.headers)
        assert again.headers["Cross-Origin-Resource-Policy"] == "same-origin"
    assert passed.requests == passed_before
    assert answers_counted("/v1/ballots", "2xx") == counted_before + TIMES
    assert vote_from({"Origin": "https://evil.example"}).status_code == 403, "is no repetition"
    assert passed.requests == passed_before + 1


def test_who_is_refused_again_passes_no_layer_and_its_page_may_read_that(
    settings: Settings, passed: Passed
) -> None:
    few = settings.model_copy(update={"reports_rate": "1/hour"})
    with TestClient(application(few), client=("127.0.0.1", 5000)) as http:
        body = {
            "workload": "relu:f32:n4",
            "device_class": "0123456789abcdef:r1-0:wasm+simd128",
            "artifact": "0" * 64,
            "stage": "run",
            "detail": "",
        }
        assert [http.post("/v1/failures", json=body).status_code for _ in range(2)] == [404, 429]
        before, counted = passed.requests, answers_counted("/v1/failures", "4xx")
        for _ in range(TIMES):
            refused = http.post("/v1/failures", content=b"{")
            assert refused.status_code == 429
            assert int(refused.headers["Retry-After"]) > 0
            assert refused.headers["Access-Control-Allow-Origin"] == "*"
            assert refused.headers["X-Content-Type-Options"] == "nosniff"
            assert int(refused.headers["Content-Length"]) == len(refused.content)
        assert passed.requests == before
        assert answers_counted("/v1/failures", "4xx") == counted + TIMES
        asking = {"Origin": "https://shop.example", "Access-Control-Request-Method": "POST"}
        assert http.options("/v1/failures", headers=asking).status_code == 204


def test_who_returns_to_an_earlier_ballot_is_heard_by_whichever_gateway(
    settings: Settings, gateway: TestClient, agent: Agent, db: Connection
) -> None:
    with TestClient(application(settings), client=("127.0.0.1", 5000)) as another:
        elsewhere = replace(agent, http=another)
        vote(agent, [FIRST, SECOND], 0)
        eventually(lambda: heard(gateway, agent) == 1, "the gateway heard of it")
        vote(agent, [FIRST, SECOND], 0)
        vote(elsewhere, [SECOND, FIRST], 0)
        eventually(lambda: heard(gateway, agent) == 2, "the gateway heard of it")
        vote(agent, [FIRST, SECOND], 0)
    assert db.execute("SELECT candidate_ids FROM ballot").fetchone() == ([FIRST, SECOND],)


def heard(gateway: TestClient, agent: Agent) -> int:
    """Counts the ballots of the agent that the gateway has heard of."""
    state: State = cast("FastAPI", gateway.app).state.kernelzoo
    filed = state.wake.ballots.of(str(state.tokens.holder(agent.token)))
    return 0 if filed is None else filed[1]


def test_the_same_ballot_in_a_later_session_is_counted_for_its_engine(
    gateway: TestClient, agent: Agent, db: Connection, sent: Sent
) -> None:
    assert agent.vote(WORKLOAD.key, [FIRST]).status_code == 202
    count(db, agent)
    later = open_agent(
        gateway, identity=agent.identity, engine={"name": "Chromium", "version": "157"}
    )
    assert later.vote(WORKLOAD.key, [FIRST]).status_code == 202
    assert sent.tallies == 2


def test_a_key_whose_ballots_change_has_one_tally_waiting(
    gateway: TestClient, agent: Agent, db: Connection, sent: Sent
) -> None:
    for number in range(TIMES):
        ranking = [FIRST, SECOND] if number % 2 else [SECOND, FIRST]
        assert agent.vote(WORKLOAD.key, ranking).status_code == 202
    report(gateway, db, FIRST, agent.device_class)
    own = jobs.tally(WORKLOAD.key, DeviceClass.parse(agent.device_class))
    assert list(newly_asked(db, [own])) == [], "a judged lease asks for no other"
    assert sent.tallies == 1
    count(db, agent)
    assert db.execute("SELECT count(*) FROM ballot WHERE NOT tallied").fetchone() == (0,)
    assert list(newly_asked(db, [own, own])) == [own]


def test_a_tally_that_waits_for_its_turn_leaves_no_other_waiting(
    agent: Agent, db: Connection, database_url: str
) -> None:
    """Several would each hold a worker."""
    key, device_class = WORKLOAD.key, DeviceClass.parse(agent.device_class)
    assert fetch_all(db, tallies.ask(key, device_class))
    over = Event()

    def wait_for_turn() -> None:
        with connected(database_url) as other:
            tally(other, key, device_class, RULE)
        over.set()

    execute(db, tallies.take_turn(key, device_class))
    second = Thread(target=wait_for_turn)
    second.start()
    waits = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
    eventually(lambda: db.execute(waits).fetchone() == (1,), "the second tally waits")
    assert fetch_all(db, tallies.ask(key, device_class)) == []
    execute(db, tallies.leave_turn(key, device_class))
    second.join()
    assert over.is_set()
    assert fetch_all(db, tallies.ask(key, device_class))


def test_a_tally_that_fails_lets_the_next_one_begin(
    agent: Agent, db: Connection, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise ValueError("a fault")

    with monkeypatch.context() as broken:
        broken.setattr(aggregating, "deny_failing", fail)
        with pytest.raises(ValueError, match="a fault"):
            count(db, agent)
    with connected(database_url) as other:
        tally(other, WORKLOAD.key, DeviceClass.parse(agent.device_class), RULE)


def test_a_tally_whose_message_was_lost_is_sent_again(agent: Agent, db: Connection) -> None:
    own = jobs.tally(WORKLOAD.key, DeviceClass.parse(agent.device_class))
    assert list(newly_asked(db, [own])) == [own]
    assert own not in stalled(db, 5, 16)
    assert own in stalled(db, 0, 16)
    count(db, agent)
    assert own not in stalled(db, 0, 16)


def test_what_was_reported_is_judged_before_ballots_are_counted() -> None:
    own = jobs.tally(WORKLOAD.key, DeviceClass.parse("0123456789abcdef:r1-0:wasm+simd128"))
    judging = jobs.verify_leases([1])
    assert own.queue == judging.queue
    assert judging.place < own.place
