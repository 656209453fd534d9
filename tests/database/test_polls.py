"""Attack by idle polls: one network that asks for leases ten thousand times at once.

What it cost before: as many sockets, and the gateway 93 % of a core and 481 MB.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from typing import Any, cast

import pytest
from fastapi.testclient import TestClient

from cli.stack.ports import LOOPBACK
from kernelzoo.settings import Settings
from services.gateway.app import application
from services.gateway.connections import Patience
from services.gateway.rates import PER_IDENTITY, RETRY_S
from services.gateway.state import State
from tests.database.client import SESSION, Agent, open_agent
from tests.unit.gateway.test_connections import connect, rest, serving

PER_NETWORK = 12
WAIT_S = 2.5


def stranger(http: TestClient) -> Agent:
    given = http.post("/v1/sessions", json=SESSION).json()
    return Agent(http, given["token"], given["identity"], given["device_class"])


def statuses(agents: list[Agent]) -> list[int]:
    """The statuses of polls that all agents send at once, and all of which wait."""
    with ThreadPoolExecutor(len(agents)) as asking:
        answers = list(asking.map(lambda agent: agent.lease(wait_s=WAIT_S), agents))
    for answer in answers:
        assert answer.status_code == 204 or answer.headers["Retry-After"] == "5"
    return sorted(answer.status_code for answer in answers)


def test_polls_of_an_agent_and_of_a_network_are_counted_until_they_end(
    settings: Settings,
) -> None:
    few = settings.model_copy(update={"polls_per_network": PER_NETWORK})
    with TestClient(application(few), client=("127.0.0.1", 5000)) as http:
        one, other, own, fleet = stranger(http), stranger(http), open_agent(http), open_agent(http)
        assert statuses([own] * 11) == [204] * PER_IDENTITY + [429] * 3
        assert statuses([one] * 8 + [other] * 8) == [204] * PER_NETWORK + [429] * 4
        assert statuses([own] * 8 + [fleet] * 8) == [204] * 16, "the operator's are no network"
        assert statuses([one] * 8 + [other] * 4) == [204] * PER_NETWORK, "all have ended"


def full(http: TestClient, agent: Agent) -> None:
    """Lets the network of the agent have as many polls waiting as it may."""
    state: State = cast("Any", http.app).state.kernelzoo
    claims = state.tokens.session(agent.token, network=state.tokens.network("127.0.0.1"), origin="")
    state.polls._open[claims.network] = state.settings.polls_per_network


def test_polls_of_a_network_that_has_its_share_are_refused_before_their_body_is_read(
    settings: Settings,
) -> None:
    """To read and understand them was most of what 1,500 impatient agents cost."""
    with TestClient(application(settings), client=("127.0.0.1", 5000)) as http:
        one, own = stranger(http), open_agent(http)
        full(http, one)
        body, read = b"{" * 100, []

        def sent() -> Iterator[bytes]:
            read.append(body)
            yield body

        refused = http.post("/v1/leases", content=sent(), headers=one.bearer)
        assert read == []
        assert (refused.status_code, refused.headers["Retry-After"]) == (429, "5")
        assert refused.headers["content-type"] == "application/problem+json"
        assert "this network has" in refused.json()["detail"]
        unknown = http.post("/v1/leases", content=body, headers={"Authorization": "Bearer x"})
        assert unknown.status_code == 429
        assert own.lease().status_code == 204, "the operator's are no network"
        assert http.post("/v1/leases", content=body, headers=own.bearer).status_code == 422


def test_a_connection_that_asks_again_too_early_is_ended_and_a_proxys_is_not(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_s = [100.0]
    behind = settings.model_copy(update={"trusted_proxies": "127.0.0.1"})
    for chosen, ended in ((settings, [False, True, True, False]), (behind, [False] * 4)):
        with TestClient(application(chosen), client=("127.0.0.1", 5000)) as http:
            one = stranger(http)
            full(http, one)
            found = []
            with monkeypatch.context() as clock:
                clock.setattr("services.gateway.impatience.time", FakeClock(now_s))
                for wait_s in (0.0, RETRY_S - 0.1, RETRY_S - 0.1, RETRY_S):
                    now_s[0] += wait_s
                    headers = {**one.bearer, "X-Forwarded-For": "127.0.0.1"}
                    refused = http.post("/v1/leases", json={"limit": 1}, headers=headers)
                    assert refused.status_code == 429
                    found.append(refused.headers.get("Connection") == "close")
        assert found == ended


def test_a_connection_that_asks_again_too_early_is_closed(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("services.gateway.impatience.time", FakeClock([100.0]))
    poll = b"POST /v1/leases HTTP/1.1\r\nHost: zoo\r\nContent-Length: 2\r\n\r\n{}"
    gateway = application(settings)
    with (
        serving(app=gateway, lifespan="on", idle_s=300, patience=Patience()) as port,
        closing(connect(port)) as held,
    ):
        state: State = gateway.state.kernelzoo
        state.polls._open[state.tokens.network(LOOPBACK)] = settings.polls_per_network
        held.sendall(poll)
        first = bytearray()
        while not first.endswith(b"}"):
            first += held.recv(1 << 16)
        held.sendall(poll)
        last = rest(held)
    for refused in (bytes(first), last):
        assert refused.startswith(b"HTTP/1.1 429 ")
        assert refused.endswith(b"}")


@dataclass(frozen=True)
class FakeClock:
    now_s: list[float]

    def monotonic(self) -> float:
        return self.now_s[0]
