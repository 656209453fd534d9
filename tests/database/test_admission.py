"""Strangers decide little by inventing device classes, and by being the first to visit one."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from fastapi.testclient import TestClient

from kernelzoo.domain.candidate import Candidate
from kernelzoo.domain.device import DeviceClass, Hardware
from kernelzoo.domain.trust import ALL_DEFENCES, Defence
from kernelzoo.settings import Settings
from kernelzoo.store.chain import EARLIEST, LATEST
from services.aggregator.publishing import Rule
from tests.database.client import SESSION, Agent, open_agent
from tests.database.conftest import WORKLOAD, Connection, make_candidate
from tests.database.strangers import Crowd, answer
from tests.database.test_chain import SIMD, on, open_job, served
from workers.aggregating import tally
from workers.families import aggregate_by_family

RULE = Rule(quorum=5, malicious_share=0.2, minimum=10)
DEFAULT, FAST, SLOW, OTHER = (make_candidate(tile) for tile in range(4))
HONEST = {DEFAULT: 1000.0, FAST: 500.0, SLOW: 2000.0, OTHER: 1600.0}
LIES = {DEFAULT: 1000.0, FAST: 1500.0, SLOW: 450.0, OTHER: 1600.0}
AGAINST_INVENTION = frozenset({Defence.SPEAKERS, Defence.MINIMUM, Defence.NETWORKS})
UNSEEN = Hardware(cpu_architecture="x86", logical_cores=64, gpu_vendor="", gpu_architecture="")


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return settings.model_copy(update={"quorum": RULE.quorum})


@pytest.fixture(autouse=True)
def job_id(db: Connection) -> int:
    """Four kernels that all run in the browsers of these tests."""
    return open_job(db, [DEFAULT, FAST, SLOW, OTHER])


def visit(
    db: Connection, agent: Agent, times_ns: Mapping[Candidate, float], rule: Rule = RULE
) -> None:
    """Measures what it is lent until there is no more, and votes for the fastest of that."""
    told: dict[str, float] = {}
    by_id = {each.candidate_id: time for each, time in times_ns.items()}
    while (found := agent.lease()).status_code == 200:
        lease = found.json()
        lent = [kernel["candidate"] for kernel in lease["candidates"]]
        if lent:
            answer(agent, db, lease, by_id, salt=1 + int(lease["lease"]))
        told |= {each: by_id[each] for each in lent}
        ranking = sorted(told, key=lambda each: told[each])
        lines = [{"candidate": each, "relative_time": told[each] / 2000} for each in ranking]
        ballot = {"workload": WORKLOAD.key, "lines": lines}
        assert agent.http.put("/v1/ballots", json=ballot, headers=agent.bearer).status_code == 202
        tally(db, WORKLOAD.key, DeviceClass.parse(agent.device_class), rule)


def entry(db: Connection, device_class: str) -> tuple[str, str] | None:
    row = db.execute(
        "SELECT candidate_id, state FROM zoo_entry WHERE device_class = %s AND state <> 'retired'",
        (device_class,),
    ).fetchone()
    return (row[0], row[1]) if row else None


def invent(come: Crowd, db: Connection, rule: Rule, *, networks: int, classes: int) -> None:
    """Two identities of each network vote for `SLOW` on classes that nobody else has."""
    first = {
        (network, twin): come(network, **on(logical_cores=100))
        for network in range(networks)
        for twin in (0, 1)
    }
    for number in range(classes):
        for agent in first.values():
            cores = on(logical_cores=100 + number)
            visit(db, again(agent, **cores), LIES, rule)


def again(agent: Agent, **changes: Any) -> Agent:
    """Another session of the same identity, on a device of its choice."""
    given = agent.http.post(
        "/v1/sessions", json={**SESSION, "identity": agent.identity, **changes}
    ).json()
    return Agent(agent.http, given["token"], given["identity"], given["device_class"])


def unknown(http: TestClient) -> tuple[str, str]:
    """Returns what a device of this architecture is served that nobody has measured."""
    found = served(http, f"{UNSEEN.device_id}:r1-0:{SIMD}", hardware=UNSEEN)
    return found["level"], found["kernel"]["candidate"]


@pytest.mark.parametrize(
    ("defences", "served_kernel"),
    [
        (ALL_DEFENCES, FAST),
        pytest.param(ALL_DEFENCES - AGAINST_INVENTION, SLOW, marks=pytest.mark.slow),
    ],
    ids=["defended", "undefended"],
)
def test_classes_that_few_networks_invented_serve_nobody(
    http: TestClient,
    db: Connection,
    come: Crowd,
    defences: frozenset[Defence],
    served_kernel: Candidate,
) -> None:
    rule = replace(RULE, defences=defences)
    for _ in range(RULE.quorum):
        visit(db, open_agent(http, **on()), HONEST, rule)
    invent(come, db, rule, networks=3, classes=2)
    aggregate_by_family(db, rule)
    assert unknown(http) == ("architecture", served_kernel.candidate_id)


def test_invented_classes_alone_speak_for_no_other(
    http: TestClient, db: Connection, come: Crowd
) -> None:
    """Ten networks, as many as confirm, and none of them vouched for."""
    for network in range(10):
        visit(db, come(network, **on(logical_cores=100)), LIES)
    device_class = db.execute("SELECT device_class FROM zoo_entry").fetchone()
    assert device_class is not None
    assert entry(db, device_class[0]) == (SLOW.candidate_id, "confirmed")
    aggregate_by_family(db, RULE)
    assert unknown(http) == ("default", DEFAULT.candidate_id)
    device_id = device_class[0].split(":")[0]
    other = served(http, f"{device_id}:r1-1:{SIMD}")
    assert (other["level"], other["kernel"]["candidate"]) == ("default", DEFAULT.candidate_id)


def test_attested_voters_of_their_own_let_a_class_speak(
    http: TestClient, db: Connection, come: Crowd
) -> None:
    for network in range(10):
        visit(db, come(network, **on()), HONEST)
    db.execute("UPDATE identity SET attested = true")
    aggregate_by_family(db, RULE)
    assert unknown(http) == ("architecture", FAST.candidate_id)


def flood(db: Connection, identities: int) -> None:
    """Has so many identities of one network measure what the first voter of each class did, and
    find the same.
    """
    db.execute(
        """
        WITH other AS (
            INSERT INTO identity (network, operated, attested, valid_in_row)
            SELECT 'flood', false, true, 1 FROM generate_series(1, %s) RETURNING id
        ), first AS (
            SELECT min(lease_id) AS lease_id FROM measurement GROUP BY device_class
        ), lent AS (
            INSERT INTO lease (session_id, identity_id, device_class, job_id, reference_id, seed,
                               nonce, expires_at)
            SELECT l.session_id, other.id, l.device_class, l.job_id, l.reference_id, 0, '', now()
            FROM first JOIN lease l ON l.id = first.lease_id CROSS JOIN other
            RETURNING id, identity_id, device_class
        ), measured AS (
            SELECT m.*, lent.id AS by_lease, lent.identity_id AS by_identity
            FROM first JOIN measurement m ON m.lease_id = first.lease_id
            JOIN lent ON lent.device_class = m.device_class
        ), items AS (
            INSERT INTO lease_item (lease_id, candidate_id)
            SELECT by_lease, candidate_id FROM measured
        )
        INSERT INTO measurement (lease_id, candidate_id, identity_id, device_class, outcome,
                                 samples_ns, reference_ns, calls_per_sample, sampled_entries,
                                 detail, verdict, best_ns, relative_time, job_id)
        SELECT by_lease, candidate_id, by_identity, device_class, outcome, samples_ns,
               reference_ns, calls_per_sample, sampled_entries, detail, verdict, best_ns,
               relative_time, job_id
        FROM measured
        """,
        (identities,),
    )


def test_a_network_that_comes_with_ever_more_identities_takes_no_class_its_voice(
    http: TestClient, db: Connection, come: Crowd
) -> None:
    """Attack: what is looked at of a winner's measurements has bounds, which one network fills.

    What it cost before: thirteen days of a network, after which unseen devices had the default.
    """
    for network in range(10):
        visit(db, come(network, **on()), HONEST)
    db.execute("UPDATE identity SET attested = true")
    flood(db, EARLIEST + LATEST + 1)
    aggregate_by_family(db, RULE)
    assert unknown(http) == ("architecture", FAST.candidate_id)


def test_a_cold_class_that_three_networks_had_first_follows_ten_honest_ones(
    http: TestClient, db: Connection, come: Crowd
) -> None:
    for network in range(3):
        for _ in range(2):
            attacker = come(network, **on())
            visit(db, attacker, LIES)
    assert entry(db, attacker.device_class) == (SLOW.candidate_id, "provisional")
    assert served(http, attacker.device_class)["level"] == "default", "nobody is served it"
    for network in range(10, 20):
        visit(db, come(network, **on()), HONEST)
    assert entry(db, attacker.device_class) == (FAST.candidate_id, "confirmed")


def test_few_networks_confirm_what_a_class_of_the_operators_found(
    http: TestClient, db: Connection, come: Crowd
) -> None:
    for _ in range(RULE.quorum):
        visit(db, open_agent(http, **on()), HONEST)
    aggregate_by_family(db, RULE)
    for network in range(RULE.quorum):
        stranger = come(network, **on(logical_cores=4))
        visit(db, stranger, HONEST)
    assert entry(db, stranger.device_class) == (FAST.candidate_id, "confirmed")
