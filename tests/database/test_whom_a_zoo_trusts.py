"""`KERNELZOO_TRUST`: whose measurements, ballots and failures a zoo takes, and counts."""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from typing import Any, Protocol

import pytest
from fastapi.testclient import TestClient
from httpx2 import Response

from kernelzoo.domain.device import DeviceClass
from kernelzoo.domain.trust import Trust
from kernelzoo.settings import Settings
from services.aggregator.publishing import Rule
from services.gateway.app import application
from tests.database.client import OPERATOR, SESSION, Agent, open_agent
from tests.database.conftest import WORKLOAD, Connection
from tests.database.strangers import answer
from tests.database.test_chain import on
from workers.aggregating import tally

pytestmark = pytest.mark.usefixtures("job_id")

SHOP = "https://shop.example"


class Zoo(Protocol):
    def __call__(self, trust: Trust, **changes: Any) -> TestClient: ...


@pytest.fixture
def zoo(settings: Settings) -> Iterator[Zoo]:
    """A gateway with this setting, as a visitor sees it. There is an application `shop`."""
    with ExitStack() as stack:

        def opened(trust: Trust, **changes: Any) -> TestClient:
            own = settings.model_copy(update={"trust": trust, **changes})
            http = stack.enter_context(TestClient(application(own), client=("10.0.7.1", 5000)))
            http.post(
                "/v1/applications", json={"name": "shop", "origins": [SHOP]}, headers=OPERATOR
            )
            return http

        yield opened


def visit(http: TestClient, *, of_shop: bool = False, **changes: Any) -> Response:
    body = {**SESSION, **changes, **({"application": "shop"} if of_shop else {})}
    return http.post("/v1/sessions", json=body, headers={"Origin": SHOP} if of_shop else {})


@pytest.mark.parametrize(
    ("trust", "anybody", "of_shop"),
    [(Trust.OPERATOR, 403, 403), (Trust.APPLICATIONS, 403, 201), (Trust.CROWD, 201, 201)],
)
def test_each_mode_lets_its_agents_in_and_says_why_it_refuses_the_others(
    zoo: Zoo, trust: Trust, anybody: int, of_shop: int
) -> None:
    http = zoo(trust)
    open_agent(http)
    for answered, expected in ((visit(http), anybody), (visit(http, of_shop=True), of_shop)):
        assert answered.status_code == expected
        if expected == 403:
            assert f"KERNELZOO_TRUST={trust}" in answered.json()["detail"]


def test_applications_are_the_default(settings: Settings) -> None:
    told = settings.model_dump(exclude={"trust"})
    assert Settings(**told).trust is Trust.APPLICATIONS


@pytest.mark.parametrize(
    ("trust", "origin", "status"),
    [
        (Trust.OPERATOR, SHOP, 403),
        (Trust.APPLICATIONS, SHOP, 404),
        (Trust.APPLICATIONS, "https://other.example", 403),
        (Trust.APPLICATIONS, "", 403),
        (Trust.CROWD, "", 404),
    ],
)
def test_failures_are_taken_of_whom_measurements_are_taken_of(
    zoo: Zoo, trust: Trust, origin: str, status: int
) -> None:
    """404: it is looked at, and there is no such artifact."""
    failure = {
        "workload": WORKLOAD.key,
        "device_class": "0123456789abcdef:r1-0:wasm+simd128",
        "artifact": "0" * 64,
        "stage": "run",
        "detail": "",
    }
    headers = {"Origin": origin} if origin else {}
    http = zoo(trust)
    assert http.post("/v1/failures", json=failure, headers=headers).status_code == status
    of_operator = http.post("/v1/failures", json=failure, headers={**headers, **OPERATOR})
    assert of_operator.status_code == 404, "the operator's agents are heard in every mode"


def test_what_was_cast_under_a_wider_trust_counts_no_more_under_a_narrower_one(
    zoo: Zoo, db: Connection
) -> None:
    http = zoo(Trust.CROWD)
    given = visit(http, **on()).json()
    agent = Agent(http, given["token"], given["identity"], given["device_class"])
    lease = agent.lease().json()
    answer(agent, db, lease, {}, salt=1)
    lent = [kernel["candidate"] for kernel in lease["candidates"]]
    assert agent.vote(WORKLOAD.key, lent).status_code == 202
    rule = Rule(quorum=1, malicious_share=0)
    for trust in (Trust.OPERATOR, Trust.APPLICATIONS, Trust.CROWD):
        tally(db, WORKLOAD.key, DeviceClass.parse(agent.device_class), replace(rule, trust=trust))
        found = db.execute("SELECT count(*) FROM zoo_entry").fetchone()
        assert found == (1 if trust is Trust.CROWD else 0,)
    assert db.execute(
        "SELECT trust, is_trusted(trust, false, NULL), is_trusted(trust, false, 1),"
        " is_trusted(trust, true, NULL)"
        " FROM unnest(ARRAY['operator', 'applications', 'crowd']) AS trust"
    ).fetchall() == [
        ("operator", False, False, True),
        ("applications", False, True, True),
        ("crowd", True, True, True),
    ]


def test_an_agent_and_a_network_measure_for_few_classes_a_day(zoo: Zoo) -> None:
    http = zoo(
        Trust.CROWD,
        classes_per_identity_per_day=2,
        classes_per_network_per_day=3,
        identities_per_network_per_day=9,
    )
    first = visit(http, **on(logical_cores=1)).json()["identity"]
    for cores, status in ((2, 201), (3, 429), (1, 201)):
        found = visit(http, identity=first, **on(logical_cores=cores))
        assert found.status_code == status, found.text
    assert (
        "2 device classes within a day" in visit(http, identity=first, **on(logical_cores=4)).text
    )
    for cores, status in ((3, 201), (4, 429), (2, 201)):
        assert visit(http, **on(logical_cores=cores)).status_code == status
    for cores in range(1, 9):
        open_agent(http, **on(logical_cores=cores))
