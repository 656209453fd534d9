"""Attack by manifests that are in no memory: classes are claims, and each costs a build.

What it cost before: a request each; 1,000 a second were answered after 63 s at the worst.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from fastapi.testclient import TestClient

from kernelzoo.metrics import MANIFESTS_SHED
from kernelzoo.store import notifications
from kernelzoo.store.blocking import execute
from services.gateway.admission import MOST_AT_ONCE, RESERVED
from services.gateway.middleware import HEADERS
from services.gateway.state import State
from tests.database.client import open_agent
from tests.database.conftest import WORKLOAD, Connection
from tests.running import eventually

pytestmark = pytest.mark.usefixtures("job_id")
INVENTED = f"/v1/zoo/{WORKLOAD.key}/0123456789abcdef:r1-0:wasm+simd128"


@contextmanager
def full(http: TestClient, *, reserved: int = RESERVED) -> Iterator[None]:
    """Lets as many misses be under way as may be, and so many of the reserve."""
    admission = state_of(http).admission
    admission.under_way += MOST_AT_ONCE
    admission._reserved += reserved
    yield
    admission.under_way -= MOST_AT_ONCE
    admission._reserved -= reserved


def state_of(http: TestClient) -> State:
    state: State = http.app.state.kernelzoo  # type: ignore[attr-defined]
    return state


def test_a_miss_too_many_is_refused_before_anything_is_done_for_it(http: TestClient) -> None:
    shed = MANIFESTS_SHED._value.get()
    with full(http):
        # Routing would answer this with 422.
        for path in (INVENTED, f"{INVENTED}?hardware=x", f"{INVENTED}/{'x' * 300}"):
            refused = http.get(path)
            assert refused.status_code == 503
            assert refused.headers["Retry-After"] == "2"
            assert refused.headers["Access-Control-Allow-Origin"] == "*"
            assert {name: refused.headers[name] for name in HEADERS} == HEADERS
            assert "ask again in a moment" in refused.json()["detail"]
    assert MANIFESTS_SHED._value.get() == shed + 3
    assert http.get(INVENTED).status_code == 200


@pytest.mark.usefixtures("one_issue_time")
def test_what_is_in_memory_and_all_else_is_answered_meanwhile(http: TestClient) -> None:
    device_class = open_agent(http).device_class
    path = f"/v1/zoo/{WORKLOAD.key}/{device_class}"
    state = state_of(http)
    eventually(lambda: state.wake.connected, "the gateway hears of changes")
    told = http.get(path)
    with full(http):
        again = http.get(path)
        assert (again.status_code, again.content) == (200, told.content)
        assert http.get(path, headers={"If-None-Match": told.headers["ETag"]}).status_code == 304
        assert http.get("/readyz").status_code == 200
        assert http.get("/v1/zoo").status_code == 200
        assert http.get(INVENTED).status_code == 503


def test_every_miss_gives_its_place_back_however_it_ends(http: TestClient) -> None:
    state = state_of(http)
    for path in (INVENTED, f"/v1/zoo/{'x' * 300}/y", "/v1/zoo/nothing/y", f"{INVENTED}/z"):
        http.get(path)
        assert state.admission.under_way == 0


@pytest.mark.usefixtures("one_issue_time")
def test_pages_of_other_networks_and_known_classes_are_answered_in_a_flood(
    http: TestClient, db: Connection
) -> None:
    """Attack: page loads of classes that have not voted are pushed out of the memory by misses.

    What it cost before: 1,000 misses a second from one network; 23 to 35 % of those loads got 503.
    """
    state = state_of(http)
    eventually(lambda: state.wake.connected, "the gateway hears of changes")
    known = http.get(INVENTED)
    # Somebody votes, and the kernels of other classes may be better now.
    execute(db, notifications.offers_changed(WORKLOAD.key))
    eventually(
        lambda: state.manifests.get((*INVENTED.split("/")[3:], "")) is None, "it is heard of"
    )
    another = INVENTED.replace("0123", "4567")
    with full(http):
        assert http.get(INVENTED).content == known.content
        assert http.get(another).status_code == 503
    with full(http, reserved=0):
        assert http.get(another).status_code == 200
    # What a denied kernel was part of is not given again.
    execute(db, notifications.zoo_changed())
    eventually(lambda: state.manifests.guess((*INVENTED.split("/")[3:], "")) is None, "it is gone")
    with full(http):
        assert http.get(INVENTED).status_code == 503
