"""Rate limits: who is counted, what is answered, and what happens without Redis."""

import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
import redis
from fastapi.testclient import TestClient

from cli.stack.ports import LOOPBACK, free_port
from kernelzoo.errors import InvalidInput
from kernelzoo.settings import Settings
from services.gateway.app import application
from services.gateway.bursts import AT_ONCE
from tests.database.client import OPERATOR, SESSION, open_agent
from tests.running import eventually

RATES = {"sessions_rate": "2/hour", "agent_rate": "3/hour", "application_rate": "2/hour"}


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return settings.model_copy(update={**RATES, "identities_per_network_per_day": 50})


def statuses(http: TestClient, count: int) -> list[int]:
    return [http.post("/v1/sessions", json=SESSION).status_code for _ in range(count)]


def test_a_connection_to_redis_costs_no_look_at_the_installed_packages(
    http: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def look() -> str:
        pytest.fail("it looks for the version of Redis' client")

    monkeypatch.setattr("redis.utils.get_lib_version", look)
    assert statuses(http, 1) == [201]


def test_a_network_that_opens_too_many_sessions_is_told_when_to_come_back(
    http: TestClient,
) -> None:
    assert statuses(http, 2) == [201, 201]
    refused = http.post("/v1/sessions", json=SESSION)
    assert refused.status_code == 429
    assert 1 <= int(refused.headers["Retry-After"]) <= 7200
    assert refused.headers["content-type"] == "application/problem+json"
    assert "limited to 2 per 1 hour" in refused.json()["detail"]
    assert http.post("/v1/sessions", json=SESSION, headers=OPERATOR).status_code == 201


def test_each_agent_has_a_limit_of_its_own(http: TestClient) -> None:
    first, second = open_agent(http), open_agent(http)
    assert [first.lease().status_code for _ in range(4)] == [204, 204, 204, 429]
    assert second.lease().status_code == 204


def test_a_limit_that_is_taken_in_parts_is_used_up_and_not_passed(settings: Settings) -> None:
    generous = settings.model_copy(update={"agent_rate": "101/hour"})
    with TestClient(application(generous), client=("127.0.0.1", 1)) as http:
        agent = open_agent(http)
        given = [agent.lease().status_code for _ in range(103)]
    assert given == [204] * 101 + [429] * 2


def test_the_failures_and_ballots_of_a_network_have_one_limit(settings: Settings) -> None:
    """The operator's agents are not counted."""
    few = settings.model_copy(
        update={"reports_rate": "3/hour", "sessions_rate": "", "agent_rate": ""}
    )
    failure = {
        "workload": "relu:f32:n4",
        "device_class": "0123456789abcdef:r1-0:wasm+simd128",
        "artifact": "0" * 64,
        "stage": "run",
        "detail": "",
    }
    ballot = {
        "workload": "relu:f32:n4",
        "lines": [{"candidate": "0" * 32, "relative_time": 1.0}],
        "in_tokens": False,
    }
    with TestClient(application(few), client=("127.0.0.1", 1)) as http:
        stranger = http.post("/v1/sessions", json=SESSION).json()["token"]
        bearer = {"Authorization": f"Bearer {stranger}"}
        given = [http.post("/v1/failures", json=failure).status_code for _ in range(2)]
        given += [http.put("/v1/ballots", json=ballot, headers=bearer).status_code for _ in "12"]
        given.append(http.post("/v1/failures", json=failure).status_code)
        assert given == [404, 404, 422, 429, 429]
        operated = open_agent(http)
        assert http.post("/v1/failures", json=failure, headers=OPERATOR).status_code == 404
        answer = http.put("/v1/ballots", json=ballot, headers=operated.bearer)
        assert answer.status_code == 422


FAILURE = {
    "workload": "relu:f32:n4",
    "device_class": "0123456789abcdef:r1-0:wasm+simd128",
    "artifact": "0" * 64,
    "stage": "run",
    "detail": "",
}
WRONG_OUTPUT = {
    "model": "unknown",
    "golden": "0" * 64,
    "device_class": "0123456789abcdef:r1-0:wasm+simd128",
    "output": "y",
}


@pytest.mark.parametrize(
    ("path", "body"),
    [("/v1/failures", FAILURE), ("/v1/wrong-outputs", WRONG_OUTPUT)],
    ids=["failures", "wrong outputs"],
)
def test_what_pages_tell_in_a_minute_is_not_taken_all_at_once(
    settings: Settings, path: str, body: dict[str, str]
) -> None:
    minute = settings.model_copy(update={"reports_rate": "300/minute"})
    with TestClient(application(minute), client=("127.0.0.1", 1)) as http:
        given = [http.post(path, json=body).status_code for _ in range(290)]
        assert given[:AT_ONCE] == [404] * AT_ONCE
        assert 429 in given, "before the limit of the minute"
        assert http.post(path, json=body, headers=OPERATOR).status_code == 404


def test_each_application_has_a_limit_of_its_own_that_wrong_keys_do_not_use_up(
    http: TestClient,
) -> None:
    def key(name: str) -> str:
        body = {"name": name, "origins": []}
        made: str = http.post("/v1/applications", json=body, headers=OPERATOR).json()["key"]
        return made

    def listed(key: str) -> int:
        return http.get("/v1/sets", headers={"X-Kernelzoo-Key": key}).status_code

    shop, blog = key("shop"), key("blog")
    wrong = shop[:-3] + "xyz"
    assert [listed(wrong) for _ in range(4)] == [403] * 4
    assert [listed(shop) for _ in range(3)] == [200, 200, 429]
    assert listed(blog) == 200


def test_no_limit_is_the_empty_text_and_nonsense_ends_the_gateway(settings: Settings) -> None:
    unlimited = settings.model_copy(update={"sessions_rate": ""})
    with TestClient(application(unlimited), client=("127.0.0.1", 1)) as http:
        assert statuses(http, 4) == [201] * 4
    nonsense = settings.model_copy(update={"agent_rate": "often"})
    with (
        pytest.raises(InvalidInput, match="KERNELZOO_AGENT_RATE is 'often'"),
        TestClient(application(nonsense)),
    ):
        pass


@contextmanager
def redis_server(port: int, folder: Path) -> Iterator[redis.Redis]:
    program = shutil.which("redis-server")
    assert program, "redis-server is missing"
    command = [program, "--port", str(port), "--save", "", "--dir", str(folder)]
    process = subprocess.Popen([*command, "--bind", LOOPBACK], stdout=subprocess.DEVNULL)
    client = redis.Redis(port=port)

    def answers() -> bool:
        with suppress(redis.ConnectionError):
            return bool(client.ping())
        return False

    try:
        eventually(answers, "Redis")
        yield client
    finally:
        process.terminate()
        process.wait()


def test_gateways_count_together_until_redis_is_flushed_or_gone(
    settings: Settings, tmp_path: Path
) -> None:
    port = free_port()
    shared = settings.model_copy(update={"redis_url": f"redis://{LOOPBACK}:{port}/0"})
    address = ("127.0.0.1", 1)
    with (
        TestClient(application(shared), client=address) as one,
        TestClient(application(shared), client=address) as two,
    ):
        with redis_server(port, tmp_path) as client:
            assert statuses(one, 1) + statuses(two, 2) == [201, 201, 429]
            client.flushall()
            assert statuses(two, 3) == [201, 201, 429]
        started_s = time.monotonic()
        assert statuses(one, 3) == [201, 201, 429], "each process alone"
        assert statuses(two, 1) == [201]
        assert time.monotonic() - started_s < 20
