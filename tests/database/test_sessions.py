"""Sessions: what an agent may claim, and the cap on strangers of one network."""

from typing import Any

import pytest
from fastapi.testclient import TestClient
from httpx2 import Response

from kernelzoo.domain.device import Hardware
from services.gateway.tokens import Tokens
from tests.database.client import OPERATOR, SESSION, open_agent
from tests.database.conftest import Connection


def open_as_stranger(http: TestClient, **changes: Any) -> Response:
    return http.post("/v1/sessions", json={**SESSION, **changes})


def test_the_device_id_is_the_hash_of_the_hardware_alone(http: TestClient) -> None:
    first = open_agent(http)
    other_engine = open_agent(http, engine={"name": "Firefox", "version": "153"})
    other_device = open_agent(http, hardware={**SESSION["hardware"], "logical_cores": 8})
    expected = Hardware(cpu_architecture="x86", logical_cores=2, gpu_vendor="", gpu_architecture="")
    assert first.device_class == f"{expected.device_id}:r1-0:wasm+relaxed-simd+simd128"
    assert other_engine.device_class == first.device_class
    assert other_device.device_class != first.device_class


def test_an_identity_is_kept_from_session_to_session(http: TestClient, db: Connection) -> None:
    first = open_agent(http)
    open_agent(http, identity=first.identity)
    row = db.execute("SELECT count(DISTINCT identity_id), count(*) FROM agent_session").fetchone()
    assert row == (1, 2)


def test_a_network_of_strangers_is_capped_and_the_operator_is_not(http: TestClient) -> None:
    answers = [open_as_stranger(http) for _ in range(3)]
    assert [answer.status_code for answer in answers] == [201, 201, 429]
    assert answers[2].headers["Retry-After"] == "3600"
    assert "2 identities" in answers[2].json()["detail"]
    known = answers[0].json()["identity"]
    assert open_as_stranger(http, identity=known).status_code == 201
    open_agent(http)


def test_no_address_is_stored(http: TestClient, db: Connection) -> None:
    open_as_stranger(http)
    row = db.execute("SELECT network FROM identity").fetchone()
    assert row is not None
    assert "127.0.0" not in row[0]


def test_addresses_of_one_network_have_one_hash_and_others_another() -> None:
    network = Tokens(secret="s" * 32, session_s=60).network
    assert network("203.0.113.7") == network("203.0.113.200") == network("::ffff:203.0.113.7")
    assert network("203.0.114.7") != network("203.0.113.7")
    assert network("2001:db8:1:2::1") == network("2001:db8:1:ffff::2")
    assert network("2001:db8:2::1") != network("2001:db8:1::1")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"features": ["simd256"]}, "feature 'simd256' is unknown for wasm"),
        ({"rho": "fast"}, "rho"),
        ({"peak_gflops": -1}, "greater than or equal to 0"),
        ({"hardware": {**SESSION["hardware"], "logical_cores": 0}}, "logical_cores"),
        ({"engine": {"name": "x" * 65, "version": "1"}}, "at most 64"),
        ({"engine": {"name": "a\x00b", "version": "1"}}, "engine.name"),
        ({"isolated": "yes"}, "isolated"),
        ({"probe": {**SESSION["probe"], "l1_kib": 48}}, "48 is no power of two"),
        ({"probe": {**SESSION["probe"], "l1_gbps": -1}}, "greater than or equal to 0"),
        ({"unexpected": True}, "unexpected"),
        ({"target": "cuda"}, "target"),
        ({"target": "webgpu"}, "probe is not that of webgpu"),
        ({"target": "webgpu", "probe": None}, "feature 'relaxed-simd' is unknown for webgpu"),
    ],
)
def test_a_malformed_profile_is_refused_by_name(
    http: TestClient, db: Connection, change: dict[str, Any], words: str
) -> None:
    answer = open_as_stranger(http, **change)
    assert answer.status_code == 422
    assert words in answer.json()["detail"]
    assert db.execute("SELECT count(*) FROM identity").fetchone() == (0,)


def test_a_wrong_operator_key_and_a_forged_identity_are_refused(http: TestClient) -> None:
    wrong = {"X-Kernelzoo-Operator": "guess"}
    assert http.post("/v1/sessions", json=SESSION, headers=wrong).status_code == 403
    assert open_as_stranger(http, identity="guess").status_code == 401
    token = open_agent(http).token
    swapped = http.post("/v1/sessions", json={**SESSION, "identity": token}, headers=OPERATOR)
    assert swapped.status_code == 401


def test_the_levels_of_a_probe_are_kept_and_may_be_missing(
    http: TestClient, db: Connection
) -> None:
    open_agent(http)
    open_agent(http, probe=None)
    kept = db.execute("SELECT probe FROM agent_session ORDER BY id").fetchall()
    assert kept == [(SESSION["probe"],), (None,)]


def test_a_body_that_is_no_json_is_refused(http: TestClient) -> None:
    answer = http.post(
        "/v1/sessions", content=b"{not json", headers={"Content-Type": "application/json"}
    )
    assert answer.status_code == 422
    assert answer.headers["content-type"] == "application/problem+json"
