"""Attackers who deny kernels to devices that run them: by classes they invent, and by crowds."""

from typing import Any

import pytest
from fastapi.testclient import TestClient

from fixtures.rows import compile_row
from kernelzoo.domain.device import DeviceClass
from services.aggregator.publishing import Rule
from tests.database.client import Agent, open_agent
from tests.database.conftest import WORKLOAD, Connection, open_space
from tests.database.sharing.space import SPACE
from tests.database.strangers import Crowd, timed
from tests.examples import one_in
from tests.running import eventually
from workers.aggregating import tally, verify_lease
from workers.maintenance import stalled

NOBODYS = "r1-1"
"""A primitive vector that no device of this hardware has."""

RULE = Rule(quorum=5, malicious_share=0.2)
KERNELS = SPACE[5::-1]
DEFAULT = KERNELS[0].candidate_id


@pytest.fixture(autouse=True)
def space(db: Connection) -> None:
    """Six kernels: five networks deny them all with 30 reports."""
    open_space(db, list(KERNELS))
    for candidate in KERNELS:
        compile_row(db, candidate)


def work(agent: Agent, db: Connection) -> None:
    """Measures all that it is lent, honestly."""
    while (found := agent.lease(16)).status_code == 200:
        lease = found.json()
        lent = [kernel["candidate"] for kernel in lease["candidates"]]
        report = [timed(lease, each, 1000.0, int(lease["lease"])) for each in lent]
        if report:
            assert agent.report(lease, report).status_code == 202
            verify_lease(db, int(lease["lease"]))


def invent(come: Crowd, db: Connection) -> list[Agent]:
    """Eight networks on a class of theirs. Three measure a kernel each, so that the class is
    known; who measured more could not say that it failed.
    """
    attackers = [come(network, rho=NOBODYS) for network in range(8)]
    for attacker in attackers[:3]:
        lease = attacker.lease(1).json()
        (kernel,) = lease["candidates"]
        attacker.report(lease, [timed(lease, kernel["candidate"], 1000.0, int(lease["lease"]))])
        verify_lease(db, int(lease["lease"]))
    return attackers


def fail_everything(db: Connection, attackers: list[Agent], device_class: str) -> int:
    """Every page of theirs says that every kernel of the class fails. How many requests it took."""
    artifacts = db.execute("SELECT DISTINCT artifact_sha256 FROM candidate").fetchall()
    for attacker in attackers:
        for (artifact,) in artifacts:
            body = {
                "workload": WORKLOAD.key,
                "device_class": device_class,
                "artifact": artifact,
                "stage": "run",
                "detail": "RuntimeError: unreachable",
            }
            assert attacker.http.post("/v1/failures", json=body).status_code == 202
    count(db)
    return len(attackers) * len(artifacts)


def count(db: Connection) -> None:
    """Does what `requeue` has workers do about failures."""
    for job in stalled(db, 0, 64):
        if job.name == "tally":
            tally(db, str(job.arguments[0]), DeviceClass.parse(str(job.arguments[1])), RULE)


def served(http: TestClient, device_class: str) -> str | None:
    """The default kernel of a page that asks now; None where the zoo has none for it."""
    body: dict[str, Any] = http.get(f"/v1/zoo/{WORKLOAD.key}/{device_class}").json()
    (entry,) = body["entries"]
    return str(entry["wasm"]["fallback"]["candidate"]) if entry["wasm"] else None


def denied(db: Connection) -> set[str]:
    rows = db.execute("SELECT DISTINCT device_class FROM denied WHERE denied").fetchall()
    return {str(row[0]) for row in rows}


def test_five_networks_of_one_session_each_deny_nothing_to_a_device_by_a_class_they_invent(
    http: TestClient, come: Crowd, db: Connection
) -> None:
    """30 requests of five networks, no measurement: the device, which the operator's own agents
    had measured, was served nothing any more.
    """
    own = open_agent(http)
    work(own, db)
    attackers = [come(network, rho=NOBODYS) for network in range(5)]
    assert fail_everything(db, attackers, attackers[0].device_class) == 30
    assert served(http, own.device_class) == DEFAULT
    assert denied(db) == set()


@pytest.mark.parametrize("operated", one_in(2, [False, True]))
def test_eight_networks_that_measure_a_class_they_invent_deny_nothing_to_who_runs_the_kernels(
    http: TestClient, come: Crowd, db: Connection, operated: bool
) -> None:
    """48 reports and three measurements of eight networks. What is denied to their class stays
    there: on the device's real class every kernel ran.
    """
    honest = [open_agent(http)] if operated else [come(network) for network in range(100, 104)]
    for agent in honest:
        work(agent, db)
    attackers = invent(come, db)
    fail_everything(db, attackers, attackers[0].device_class)
    assert denied(db) == {attackers[0].device_class}
    assert served(http, honest[0].device_class) == DEFAULT
    assert served(http, attackers[0].device_class) is not None


def test_a_device_that_nobody_measured_keeps_its_default_whatever_is_said_of_another_class(
    http: TestClient, come: Crowd, db: Connection
) -> None:
    """48 reports and three measurements of eight networks, each of which timed them beside the
    default, so that it ran there."""
    attackers = invent(come, db)
    fail_everything(db, attackers, attackers[0].device_class)
    assert denied(db) == {attackers[0].device_class}
    first, second = come(100), come(101)
    assert served(http, first.device_class) == DEFAULT
    work(first, db)
    work(second, db)
    tally(db, WORKLOAD.key, DeviceClass.parse(first.device_class), RULE)
    eventually(lambda: served(http, first.device_class) == DEFAULT, "the default")


@pytest.mark.slow
def test_no_crowd_denies_the_last_kernel_of_a_class(
    http: TestClient, come: Crowd, db: Connection
) -> None:
    """Ten networks, 60 requests, on a class that three honest strangers measured."""
    honest = [come(network) for network in (100, 101, 102)]
    attackers = [come(network) for network in range(10)]
    for agent in honest:
        work(agent, db)
    fail_everything(db, attackers, honest[0].device_class)
    kept = served(http, honest[0].device_class)
    assert kept is not None
    row = db.execute("SELECT count(*) FROM denied WHERE denied").fetchone()
    assert row == (len(KERNELS) - 1,)
    lent = come(103).lease()
    assert [kernel["candidate"] for kernel in lent.json()["candidates"]] == [kept]
