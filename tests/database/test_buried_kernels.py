"""Liars who come first and call good kernels slow, and honest voters who come later."""

from concurrent.futures import ThreadPoolExecutor
from random import Random
from time import sleep

import pytest

from fixtures.rows import compile_row
from kernelzoo.domain.device import DeviceClass
from kernelzoo.domain.lease import LEADERS
from services.aggregator.publishing import Rule
from tests.database.client import Agent
from tests.database.conftest import WORKLOAD, Connection, open_space
from tests.database.sharing.space import IDS, SPACE, Lease, lent
from tests.database.strangers import Crowd, timed
from workers.aggregating import tally, verify_lease

RULE = Rule(quorum=5, malicious_share=0.2)
HONEST = 8
REFERENCE_NS = 2000.0
BEST = IDS[-1]


@pytest.fixture(autouse=True)
def space(db: Connection) -> None:
    open_space(db, list(SPACE))
    for candidate in SPACE:
        compile_row(db, candidate)


def true_ns(candidate: str) -> float:
    """The first is the default kernel; the next seven are slower, and the others ever faster."""
    place = IDS.index(candidate)
    return REFERENCE_NS * (
        1 + place / 100 if place <= LEADERS - 1 else 0.96 ** (place - LEADERS + 1)
    )


def buried_ns(candidate: str) -> float:
    """Calls what is faster than the default 20 times slower than it is."""
    ns = true_ns(candidate)
    return ns if ns >= REFERENCE_NS else 20 * ns


def ambushed_ns(candidate: str) -> float:
    """The eight best are called 3.5 times slower than they are."""
    return true_ns(candidate) * (3.5 if candidate in IDS[-8:] else 1)


def pushed_ns(candidate: str) -> float:
    """One that is slower than the default is called a little faster than the best."""
    return true_ns(BEST) * 0.9 if candidate == IDS[1] else true_ns(candidate)


def one_lease(agent: Agent, db: Connection, told: dict[str, float], *, lie: str) -> bool:
    """Measures one lease; `told` gathers what the agent said. Whether there was one."""
    found = agent.lease()
    if found.status_code != 200:
        return False
    lease = found.json()
    ns = {"": true_ns, "bury": buried_ns, "push": pushed_ns}[lie]
    times = {candidate: ns(candidate) for candidate in lent(lease)}
    told |= {candidate: time / REFERENCE_NS for candidate, time in times.items()}
    salt = int(lease["lease"])
    report = [timed(lease, candidate, time, salt) for candidate, time in times.items()]
    if report:
        assert agent.report(lease, report).status_code == 202
        verify_lease(db, salt)
    return True


def vote(agent: Agent, told: dict[str, float]) -> None:
    best = sorted(told, key=lambda candidate: told[candidate])[:5]
    lines = [{"candidate": each, "relative_time": told[each]} for each in best]
    body = {"workload": WORKLOAD.key, "lines": lines}
    answer = agent.http.put("/v1/ballots", json=body, headers=agent.bearer)
    assert answer.status_code == 202, answer.text


def all_work(agents: list[Agent], db: Connection, *, lie: str = "") -> None:
    """Lets agents work in turn, lease by lease, until nothing is left; then they vote."""
    told: list[dict[str, float]] = [{} for _ in agents]
    working = True
    while working:
        pairs = zip(agents, told, strict=True)
        working = max([one_lease(agent, db, own, lie=lie) for agent, own in pairs])
    for agent, own in zip(agents, told, strict=True):
        vote(agent, own)
    tally(db, WORKLOAD.key, DeviceClass.parse(agents[0].device_class), RULE)


def regret(db: Connection) -> float:
    """By how much what is served is slower than the best."""
    row = db.execute("SELECT candidate_id FROM zoo_entry WHERE state = 'confirmed'").fetchone()
    assert row is not None, "nothing is confirmed"
    return true_ns(row[0]) / true_ns(BEST) - 1


def quarantined(db: Connection, honest: int = HONEST) -> int:
    """Counts the latest identities, who are the honest ones, that are in quarantine."""
    row = db.execute(
        "SELECT count(*) FROM identity WHERE failed_at IS NOT NULL AND id <> ALL (ARRAY("
        " SELECT id FROM identity ORDER BY created_at LIMIT"
        " (SELECT count(*) FROM identity) - %s))",
        (honest,),
    ).fetchone()
    assert row is not None
    return int(row[0])


@pytest.mark.parametrize(
    ("networks", "honest", "most"),
    [
        ((1, 1), 8, 0.01),
        pytest.param((1, 2), 14, 0.05, marks=pytest.mark.slow),
        pytest.param((1, 2, 3), 8, 0.1, marks=pytest.mark.slow),
    ],
)
def test_attackers_who_measure_a_space_first_and_call_what_is_good_slow_bury_little(
    come: Crowd,
    db: Connection,
    monkeypatch: pytest.MonkeyPatch,
    networks: tuple[int, ...],
    honest: int,
    most: float,
) -> None:
    """Two identities of one network and six leases of each made eight honest voters confirm the
    default kernel, at 92 % of regret; so did two and three networks. One network buries nothing
    now. Two leave fourteen voters one of the two best kernels, and three leave eight a good one.
    """
    monkeypatch.setattr("services.gateway.loans.CHANCE", Random(1))
    all_work([come(network) for network in networks], db, lie="bury")
    all_work([come(network) for network in range(100, 100 + honest)], db)
    assert regret(db) <= most
    assert quarantined(db, honest) == 0


def borrow_all(agent: Agent, db: Connection) -> list[Lease]:
    """Keeps the whole space without an answer, until others are lent it as well."""
    taken = []
    while (found := agent.lease()).status_code == 200:
        taken.append(found.json())
    db.execute("UPDATE lease SET created_at = created_at - interval '30 s'")
    return taken


@pytest.mark.slow
def test_four_networks_that_each_measured_the_whole_space_before_anybody_honest_bury_little(
    come: Crowd, db: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All kernels have then been measured equally often, by more than one honest voter outweighs.
    What one finds fast is lent to the next ones.
    """
    monkeypatch.setattr("services.gateway.loans.CHANCE", Random(1))
    attackers = [come(network) for network in range(1, 5)]
    borrowed = [borrow_all(attacker, db) for attacker in attackers]
    for attacker, leases in zip(attackers, borrowed, strict=True):
        assert {name for lease in leases for name in lent(lease)} == set(IDS)
        for lease in leases:
            salt = int(lease["lease"])
            report = [timed(lease, name, ambushed_ns(name), salt) for name in lent(lease)]
            assert attacker.report(lease, report).status_code == 202
            verify_lease(db, salt)
        vote(attacker, {name: ambushed_ns(name) / REFERENCE_NS for name in IDS})
    all_work([come(network) for network in range(100, 116)], db)
    assert regret(db) <= 0.03
    assert quarantined(db, 16) == 0


def test_two_networks_that_call_a_slow_kernel_the_fastest_are_outvoted(
    come: Crowd, db: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The price of ranking by the fastest: what attackers praise is measured by more, and
    refuted."""
    monkeypatch.setattr("services.gateway.loans.CHANCE", Random(1))
    all_work([come(network) for network in (1, 2)], db, lie="push")
    all_work([come(network) for network in range(100, 100 + HONEST)], db)
    assert regret(db) < 0.03
    assert quarantined(db) == 0


def test_reports_that_wait_for_a_verdict_count_as_answered_by_nobody(
    come: Crowd, db: Connection
) -> None:
    """Two networks report the whole space, and nothing of it can be judged."""
    for network in (1, 2):
        agent = come(network)
        while (found := agent.lease(16)).status_code == 200 and lent(lease := found.json()):
            salt = int(lease["lease"])
            report = [timed(lease, each, true_ns(each), salt) for each in lent(lease)]
            assert agent.report(lease, report).status_code == 202
    honest = come(3)
    assert honest.lease().status_code == 204, "their first verdict is due"
    db.execute("UPDATE measurement SET retries = 1")
    assert lent(honest.lease().json()) == list(IDS[:8])


def test_a_verdict_wakes_who_waits_for_it(
    come: Crowd, db: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("services.gateway.routes.leases.POLL_S", 60)
    db.execute("DELETE FROM space_point WHERE candidate_id <> ALL (%s)", (list(IDS[:2]),))
    reported = []
    for network in (1, 2):
        agent = come(network)
        lease = agent.lease().json()
        salt = int(lease["lease"])
        report = [timed(lease, each, true_ns(each), salt) for each in lent(lease)]
        assert agent.report(lease, report).status_code == 202
        reported.append(salt)
    waiter = come(3)
    assert waiter.lease().status_code == 204
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(waiter.lease, wait_s=25)
        sleep(0.5)
        for lease_id in reported:
            verify_lease(db, lease_id)
        found = waiting.result()
    assert found.status_code == 200
    assert found.elapsed.total_seconds() < 20
