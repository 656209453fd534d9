"""Attacks by X-Forwarded-For: one client that counts as many networks, and what is no address.

What it cost before, with FORWARDED_ALLOW_IPS=*: a header for each network.
"""

import pytest
from fastapi.testclient import TestClient

from kernelzoo.errors import InvalidInput
from kernelzoo.metrics import HTTP_REQUESTS
from kernelzoo.settings import Settings
from services.gateway.app import application
from services.gateway.proxies import Proxies
from tests.database.client import SESSION
from tests.database.conftest import Connection

PROXY = "10.0.0.2"


def behind(settings: Settings, peer: str = PROXY, hops: int = 1) -> TestClient:
    """Asks as a proxy at `peer`."""
    trusting = {"trusted_proxies": "10.0.0.0/24, fd00::/64", "trusted_hops": hops}
    return TestClient(application(settings.model_copy(update=trusting)), client=(peer, 5000))


def networks(db: Connection) -> int:
    row = db.execute("SELECT count(DISTINCT network) FROM identity").fetchone()
    assert row is not None
    return int(row[0])


def test_a_client_that_says_it_is_thirty_networks_is_one(
    settings: Settings, db: Connection
) -> None:
    with behind(settings) as http:
        statuses = [
            # The proxy appends the address that it was asked from.
            http.post(
                "/v1/sessions",
                json=SESSION,
                headers={"X-Forwarded-For": f"198.51.{number}.1, 203.0.113.7"},
            ).status_code
            for number in range(30)
        ]
    # The cap of these tests is two identities of a network and day.
    assert statuses == [201, 201, *[429] * 28]
    assert networks(db) == 1


def test_an_answer_that_a_proxy_is_given_is_counted_by_its_route(settings: Settings) -> None:
    counted = HTTP_REQUESTS.labels("/v1/models", "2xx")._value
    before = counted.get()
    with behind(settings) as http:
        header = {"X-Forwarded-For": "203.0.113.7"}
        assert http.get("/v1/models", headers=header).status_code == 200
    assert counted.get() == before + 1


def test_a_client_that_asks_the_gateway_itself_is_not_believed(
    settings: Settings, db: Connection
) -> None:
    with behind(settings, peer="198.51.100.9") as http:
        for number in range(2):
            header = {"X-Forwarded-For": f"203.0.{number}.1"}
            assert http.post("/v1/sessions", json=SESSION, headers=header).status_code == 201
    assert networks(db) == 1


def test_visitors_behind_two_proxies_are_told_apart_by_the_entry_of_the_outer_one(
    settings: Settings, db: Connection
) -> None:
    told = ("9.9.9.9, 203.0.113.7, 10.1.1.1", "8.8.8.8, 198.51.100.7:4711, 10.1.1.1")
    with behind(settings, hops=2) as http:
        for each in told:
            header = {"X-Forwarded-For": each}
            assert http.post("/v1/sessions", json=SESSION, headers=header).status_code == 201
    assert networks(db) == 2


def test_entries_of_several_headers_are_one_list(settings: Settings, db: Connection) -> None:
    with behind(settings) as http:
        for forged in ("1.1.1.1", "2.2.2.2"):
            headers = [("X-Forwarded-For", forged), ("X-Forwarded-For", "[2001:db8::7]:80")]
            assert http.post("/v1/sessions", json=SESSION, headers=headers).status_code == 201
    assert networks(db) == 1


@pytest.mark.parametrize("garbage", ["unknown", "1.2.3", "'; DROP", "1.2.3.4, ", "::g", "1e3"])
def test_what_is_no_address_is_refused_with_400(settings: Settings, garbage: str) -> None:
    with behind(settings) as http:
        header = {"X-Forwarded-For": garbage}
        answer = http.post("/v1/sessions", json=SESSION, headers=header)
    assert answer.status_code == 400
    assert "the visitor's address" in answer.json()["detail"]


def test_without_proxies_the_header_means_nothing(http: TestClient) -> None:
    answer = http.post("/v1/sessions", json=SESSION, headers={"X-Forwarded-For": "garbage"})
    assert answer.status_code == 201


@pytest.mark.parametrize(
    "trusted", ["*", "10.0.0.1,*", "0.0.0.0/0", "::/0", "proxy.example", "1/8"]
)
def test_whoever_is_believed_is_named(trusted: str) -> None:
    with pytest.raises(InvalidInput, match="KERNELZOO_TRUSTED_PROXIES"):
        Proxies.of(trusted, 1)
