"""Agents that speak the protocol wrongly in every step, beside one that speaks it well.

`--hypothesis-profile=long` goes on for about two minutes; `--hypothesis-seed` chooses others.
"""

import copy
import string
from typing import Any, ClassVar

import pytest
from fastapi.testclient import TestClient
from httpx2 import Response
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, rule, run_state_machine_as_test

from kernelzoo.domain.device import DeviceClass
from services.aggregator.publishing import Rule
from tests.database.client import OPERATOR, SESSION, Agent, open_agent
from tests.database.conftest import WORKLOAD, Connection
from tests.examples import examples
from tests.reports import all_ok
from workers.aggregating import tally, verify_lease

JUNK: st.SearchStrategy[Any] = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=40),
    st.text("0123456789abcdef", min_size=32, max_size=32),
    st.sampled_from(["", "0", "-1", "\x00", "9" * 400, "../..", [], {}, [[]], 2**63, -(2**63)]),
    st.lists(st.integers(), max_size=3),
)
TOKENS = st.one_of(st.just(""), st.text(string.ascii_letters + string.digits + "._-", max_size=200))


def places(body: Any, here: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in a JSON document, as the keys and indices that lead there."""
    match body:
        case dict():
            below = [place for key in body for place in places(body[key], (*here, key))]
        case list():
            below = [place for i, each in enumerate(body) for place in places(each, (*here, i))]
        case _:
            below = []
    return [here, *below]


Damage = list[tuple[int, str, Any]]
DAMAGE: st.SearchStrategy[Damage] = st.lists(
    st.tuples(st.integers(0, 1 << 16), st.sampled_from(["replaced", "left out", "twice"]), JUNK),
    min_size=1,
    max_size=3,
)
"""Faults: where, in what way and with what. It is drawn without a look at the document: how much is
drawn may not depend on what the gateway has answered."""


def broken(damage: Damage, body: dict[str, Any]) -> Any:
    """The document with up to three things wrong: replaced, left out or said twice."""
    body = copy.deepcopy(body)
    for number, way, junk in damage:
        every = places(body)
        place = every[number % len(every)]
        if not place:
            return junk
        *above, last = place
        holder: Any = body
        for key in above:
            holder = holder[key]
        match way:
            case "replaced":
                holder[last] = junk
            case "left out":
                del holder[last]
            case "twice" if isinstance(holder, list):
                holder.append(holder[last])
    return body


class Stranger(RuleBasedStateMachine):
    """Each step is right up to what is broken in it; every answer must be an answer."""

    agents: Bundle[Agent] = Bundle("agents")
    leases: Bundle[tuple[Agent, dict[str, Any]]] = Bundle("leases")

    http: ClassVar[TestClient]

    @rule(target=agents)
    def opens_well(self) -> Agent:
        return open_agent(self.http)

    @rule(damage=DAMAGE, operated=st.booleans())
    def opens_badly(self, damage: Damage, operated: bool) -> None:
        body = broken(damage, SESSION)
        _answered(self.http.post("/v1/sessions", json=body, headers=OPERATOR if operated else {}))

    @rule(target=leases, agent=agents, limit=st.integers(1, 4))
    def borrows_well(self, agent: Agent, limit: int) -> tuple[Agent, dict[str, Any]]:
        answer = _answered(agent.lease(limit))
        none: dict[str, Any] = {"lease": "0", "nonce": "", "candidates": []}
        return agent, answer.json() if answer.status_code == 200 else none

    @rule(agent=agents, damage=DAMAGE, token=st.none() | TOKENS)
    def borrows_badly(self, agent: Agent, damage: Damage, token: str | None) -> None:
        body = broken(damage, {"limit": 4, "wait_s": 0})
        if isinstance(body, dict):
            body["wait_s"] = 0
        headers = agent.bearer if token is None else {"Authorization": f"Bearer {token}"}
        _answered(self.http.post("/v1/leases", json=body, headers=headers))

    @rule(lent=leases)
    def reports_well(self, lent: tuple[Agent, dict[str, Any]]) -> None:
        agent, lease = lent
        if lease["candidates"]:
            _answered(agent.report(lease, all_ok(lease)))

    @rule(lent=leases, agent=agents, damage=DAMAGE, other=st.none() | st.integers())
    def reports_badly(
        self, lent: tuple[Agent, dict[str, Any]], agent: Agent, damage: Damage, other: int | None
    ) -> None:
        """Also another's lease, and another lease than the one it answers."""
        _, lease = lent
        right = {"nonce": lease["nonce"], "measurements": all_ok(lease)[:2]}
        number = lease["lease"] if other is None else other
        path = f"/v1/leases/{number}/measurements"
        _answered(self.http.post(path, json=broken(damage, right), headers=agent.bearer))

    @rule(lent=leases, agent=agents, damage=DAMAGE)
    def votes_badly(self, lent: tuple[Agent, dict[str, Any]], agent: Agent, damage: Damage) -> None:
        """Mostly for what it has not measured."""
        lines = [
            {"candidate": kernel["candidate"], "relative_time": 0.01}
            for kernel in lent[1]["candidates"]
        ]
        body = broken(damage, {"workload": WORKLOAD.key, "lines": lines})
        _answered(self.http.put("/v1/ballots", json=body, headers=agent.bearer))


def _answered(answer: Response) -> Response:
    assert answer.status_code < 500, answer.text
    return answer


@pytest.mark.usefixtures("job_id")
@pytest.mark.timeout(0)
def test_wrong_agents_break_nothing_for_one_that_is_right(http: TestClient, db: Connection) -> None:
    class Here(Stranger):
        pass

    Here.http = http
    run_state_machine_as_test(
        Here,
        settings=settings(
            max_examples=examples(40),
            deadline=None,
            stateful_step_count=30,
            suppress_health_check=list(HealthCheck),
        ),
    )
    honest = open_agent(http, rho="r1-1")
    measured = []
    while (lent := honest.lease()).status_code == 200:
        lease = lent.json()
        assert honest.report(lease, all_ok(lease)).status_code == 202
        verify_lease(db, int(lease["lease"]))
        measured += [kernel["candidate"] for kernel in lease["candidates"]]
    # All were reported within the margin of each other: the ballot alone tells which is fastest.
    ranking = measured[::-1]
    assert honest.vote(WORKLOAD.key, ranking).status_code == 202
    tally(
        db, WORKLOAD.key, DeviceClass.parse(honest.device_class), Rule(quorum=1, malicious_share=0)
    )
    (served,) = http.get(f"/v1/zoo/{WORKLOAD.key}/{honest.device_class}").json()["entries"]
    assert served["wasm"]["level"] == "exact"
    assert served["wasm"]["kernel"]["candidate"] == ranking[0]
    assert served["wasm"]["fallback"]["candidate"] != ranking[0], "the default asks for no vote"
