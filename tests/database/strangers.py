"""Agents without the operator's key, each from a network of its own."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Protocol

from fastapi.testclient import TestClient

from kernelzoo.settings import Settings
from kernelzoo.store.blocking import Database
from services.gateway.app import application
from tests.database.client import SESSION, Agent
from tests.reports import ok
from workers.aggregating import verify_lease


class Crowd(Protocol):
    def __call__(self, network: int, **changes: Any) -> Agent: ...


@contextmanager
def crowd_of(settings: Settings) -> Iterator[Crowd]:
    """Opens an agent from network number `network`."""
    with ExitStack() as stack:

        def come(network: int, **changes: Any) -> Agent:
            client = TestClient(application(settings), client=(f"10.0.{network}.1", 5000))
            http = stack.enter_context(client)
            opened = http.post("/v1/sessions", json={**SESSION, **changes})
            assert opened.status_code == 201, opened.text
            given = opened.json()
            return Agent(http, given["token"], given["identity"], given["device_class"])

        yield come


def more(agent: Agent, **changes: Any) -> Agent:
    """Another identity of the same network."""
    opened = agent.http.post("/v1/sessions", json={**SESSION, **changes})
    assert opened.status_code == 201, opened.text
    given = opened.json()
    return Agent(agent.http, given["token"], given["identity"], given["device_class"])


def timed(lease: dict[str, Any], candidate: str, best_ns: float, salt: float) -> dict[str, Any]:
    """A right answer; `salt` makes its noise its own."""
    return {
        **ok(lease, candidate),
        "samples_ns": [best_ns * (1 + salt * step) for step in (0, 1e-4, 3e-4)],
        "reference_ns": [2000.0 * (1 + salt * step) for step in (0, 2e-4, 5e-4)],
    }


def answer(
    agent: Agent, db: Database, lease: dict[str, Any], times: dict[str, float], salt: float
) -> None:
    """Reports every candidate, 1000 ns where `times` says nothing; then the verification runs."""
    lent = [kernel["candidate"] for kernel in lease["candidates"]]
    report = [timed(lease, each, times.get(each, 1000.0), salt) for each in lent]
    accepted = agent.report(lease, report)
    assert accepted.status_code == 202, accepted.text
    verify_lease(db, int(lease["lease"]))
