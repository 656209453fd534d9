"""Attack by repetition: reports that were answered, and ballots beyond the limit, again and again.

What it cost before: sixteen agents that repeated a report and a ballot each had 95 % of a core, and
page loads five times their time.
"""

from typing import Any

import pytest
from fastapi.testclient import TestClient

from kernelzoo.settings import Settings
from services.gateway.app import application
from services.gateway.rates import VAIN
from services.gateway.reminders import REMINDED_S
from tests.database.client import OPERATOR, Agent, open_agent
from tests.database.test_polls import FakeClock, stranger
from tests.reports import all_ok

pytestmark = pytest.mark.usefixtures("job_id")

UNREADABLE = b"{" * 100


def unread(agent: Agent, path: str, method: str = "POST") -> int:
    """The status of a request that nobody understands."""
    headers = {**agent.bearer, "Content-Type": "application/json"}
    return agent.http.request(method, path, content=UNREADABLE, headers=headers).status_code


def all_ok_but(lease: dict[str, Any], number: int) -> list[dict[str, Any]]:
    """Differs from the others, as what is the same byte for byte is not looked at again."""
    return [{**measurement, "detail": str(number)} for measurement in all_ok(lease)]


def test_who_repeats_an_answered_report_is_refused_before_it_is_read(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_s = [100.0]
    monkeypatch.setattr("services.gateway.reminders.time", FakeClock(now_s))
    with TestClient(application(settings), client=("127.0.0.1", 5000)) as http:
        one, other = open_agent(http), open_agent(http)
        lease, others = one.lease(limit=1).json(), other.lease(limit=1).json()
        path = f"/v1/leases/{lease['lease']}/measurements"
        assert one.report(lease, all_ok(lease)).status_code == 202
        again = [one.report(lease, all_ok_but(lease, n)).status_code for n in range(VAIN.amount)]
        assert again == [409] * VAIN.amount
        assert unread(one, path) == 422, "it may ask on"
        refused = one.report(lease, all_ok(lease))
        assert refused.status_code == 429
        assert "reports that answer no lease are limited to" in refused.json()["detail"]
        assert unread(one, path) == 429
        assert unread(one, "/v1/ballots", "PUT") == 422, "it has not voted too often"
        assert other.report(others, all_ok(others)).status_code == 202
        now_s[0] += REMINDED_S
        assert unread(one, path) == 422, "there may be room again"


def test_ballots_and_failures_beyond_the_limit_are_refused_before_they_are_read(
    settings: Settings,
) -> None:
    few = settings.model_copy(update={"reports_rate": "1/hour"})
    failure = {
        "workload": "relu:f32:n4",
        "device_class": "0123456789abcdef:r1-0:wasm+simd128",
        "artifact": "0" * 64,
        "stage": "run",
        "detail": "",
    }
    with TestClient(application(few), client=("127.0.0.1", 5000)) as http:
        one, other = stranger(http), stranger(http)
        given = [http.post("/v1/failures", json=failure).status_code for _ in range(2)]
        assert given == [404, 429]
        refused = http.post("/v1/failures", content=UNREADABLE)
        assert refused.status_code == 429
        assert REMINDED_S < int(refused.headers["Retry-After"]) <= 3600, "as it was told before"
        assert http.post("/v1/failures", json=failure, headers=OPERATOR).status_code == 404
        assert unread(one, "/v1/ballots", "PUT") == 422
        assert one.vote("relu:f32:n4", ["0" * 32]).status_code == 429
        assert unread(one, "/v1/ballots", "PUT") == 429
        assert unread(other, "/v1/ballots", "PUT") == 422
