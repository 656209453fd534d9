"""Attack by manifests that are in no memory: classes are claims, and each costs a build.

What it cost before: a request each; 1,000 a second were answered after 63 s at the worst.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from fastapi.testclient import TestClient

from kernelzoo.metrics import MANIFESTS_SHED
from services.gateway.admission import MOST_AT_ONCE
from services.gateway.middleware import HEADERS
from services.gateway.state import State
from tests.database.client import open_agent
from tests.database.conftest import WORKLOAD
from tests.running import eventually

pytestmark = pytest.mark.usefixtures("job_id")
INVENTED = f"/v1/zoo/{WORKLOAD.key}/0123456789abcdef:r1-0:wasm+simd128"


@contextmanager
def full(http: TestClient) -> Iterator[None]:
    """As many misses are under way as may be."""
    state: State = http.app.state.kernelzoo  # type: ignore[attr-defined]
    state.admission.under_way += MOST_AT_ONCE
    yield
    state.admission.under_way -= MOST_AT_ONCE


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


def test_what_is_in_memory_and_all_else_is_answered_meanwhile(http: TestClient) -> None:
    device_class = open_agent(http).device_class
    path = f"/v1/zoo/{WORKLOAD.key}/{device_class}"
    state: State = http.app.state.kernelzoo  # type: ignore[attr-defined]
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
    state: State = http.app.state.kernelzoo  # type: ignore[attr-defined]
    for path in (INVENTED, f"/v1/zoo/{'x' * 300}/y", "/v1/zoo/nothing/y", f"{INVENTED}/z"):
        http.get(path)
        assert state.admission.under_way == 0
