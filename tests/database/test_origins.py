"""Attacks by pages on their visitors: to open sessions in the visitors' networks, read the tokens,
and vote from one address with as many networks as there were visitors.

What it cost before: one page load of each of three visitors. It is refused to any page but the
zoo's own and those that the operator registered for an application.
"""

from typing import Any
from uuid import UUID

import jwt
import pytest
from fastapi.testclient import TestClient
from httpx2 import Response

from kernelzoo.settings import Settings
from services.gateway.app import application
from tests.database.client import OPERATOR, SESSION, open_agent
from tests.database.conftest import Connection

EVIL = "https://evil.example"
SHOP = "https://shop.example"
PREFLIGHT = {
    "Access-Control-Request-Method": "POST",
    "Access-Control-Request-Headers": "authorization,content-type",
}
AGENT_ROUTES = (
    "/v1/sessions",
    "/v1/leases",
    "/v1/leases/1/measurements",
    "/v1/ballots",
    "/v1/attestations",
)


def visitor(settings: Settings, number: int) -> TestClient:
    """A browser in network `number`, as the gateway sees it."""
    return TestClient(application(settings), client=(f"10.0.{number}.1", 5000))


def open_from(http: TestClient, origin: str, **changes: Any) -> Response:
    return http.post("/v1/sessions", json={**SESSION, **changes}, headers={"Origin": origin})


@pytest.fixture
def shop(http: TestClient) -> str:
    body = {"name": "shop", "origins": [SHOP]}
    assert http.post("/v1/applications", json=body, headers=OPERATOR).status_code == 201
    return "shop"


def test_a_page_of_anybodys_opens_no_session_in_its_visitors_networks(
    settings: Settings, db: Connection
) -> None:
    for number in range(3):
        with visitor(settings, number) as browser:
            answer = open_from(browser, EVIL)
        assert answer.status_code == 403
        assert "kernelzoo app origins" in answer.json()["detail"]
        assert "access-control-allow-origin" not in answer.headers
    assert db.execute("SELECT count(*) FROM identity").fetchone() == (0,)


@pytest.mark.parametrize("path", AGENT_ROUTES)
@pytest.mark.parametrize("origin", [EVIL, "null", "http://testserver.evil.example"])
def test_browsers_are_told_that_other_pages_may_not_ask(
    http: TestClient, path: str, origin: str
) -> None:
    answer = http.options(path, headers={"Origin": origin, **PREFLIGHT})
    assert answer.status_code == 403
    assert "access-control-allow-origin" not in answer.headers


@pytest.mark.parametrize("path", AGENT_ROUTES)
def test_a_registered_origin_is_let_in_until_it_is_taken_away(
    settings: Settings, shop: str, path: str
) -> None:
    with visitor(settings, 1) as browser:
        asked = browser.options(path, headers={"Origin": SHOP, **PREFLIGHT})
    assert asked.status_code == 204
    assert asked.headers["Access-Control-Allow-Origin"] == SHOP
    assert "Authorization" in asked.headers["Access-Control-Allow-Headers"]
    with visitor(settings, 1) as browser:
        change = {"removed": [SHOP]}
        changed = browser.patch(f"/v1/applications/{shop}/origins", json=change, headers=OPERATOR)
        assert changed.json() == {"name": shop, "origins": []}
        assert browser.options(path, headers={"Origin": SHOP, **PREFLIGHT}).status_code == 403


def test_an_origin_that_is_added_may_measure_for_its_application_alone(
    http: TestClient, shop: str
) -> None:
    other = "https://blog.example"
    change = {"added": [other]}
    changed = http.patch(f"/v1/applications/{shop}/origins", json=change, headers=OPERATOR)
    assert changed.json()["origins"] == [other, SHOP]
    assert open_from(http, other, application=shop).status_code == 201
    nameless = open_from(http, other)
    assert nameless.status_code == 403
    assert "name it in `application`" in nameless.json()["detail"]


def test_origins_are_the_operators_to_change(http: TestClient, shop: str) -> None:
    change = {"added": [EVIL]}
    assert http.patch(f"/v1/applications/{shop}/origins", json=change).status_code == 401
    unknown = http.patch("/v1/applications/nobody/origins", json=change, headers=OPERATOR)
    assert unknown.status_code == 404


def test_the_zoos_own_pages_measure_for_nobody_too(http: TestClient) -> None:
    answer = open_from(http, "http://testserver")
    assert answer.status_code == 201
    assert answer.headers["Access-Control-Allow-Origin"] == "http://testserver"
    assert answer.headers["Cache-Control"] == "no-store"
    assert answer.headers["Vary"] == "Origin"


def test_a_name_that_was_made_to_point_at_the_zoo_is_not_its_own(settings: Settings) -> None:
    named = settings.model_copy(update={"origins": "https://zoo.example, https://zoo2.example"})
    with TestClient(
        application(named), base_url="http://rebound.example", client=("127.0.0.1", 1)
    ) as http:
        assert open_from(http, "http://rebound.example").status_code == 403
        assert open_from(http, "https://zoo2.example").status_code == 201


def test_what_the_zoo_serves_is_for_pages_everywhere(http: TestClient) -> None:
    for path in ("/v1/zoo", "/v1/signing-keys", "/v1/zoo/no-set/0123456789abcdef:r1-0:wasm"):
        answer = http.get(path, headers={"Origin": EVIL})
        assert answer.headers["Access-Control-Allow-Origin"] == "*"
        assert "Vary" not in answer.headers
    told = http.options(
        "/v1/failures",
        headers={
            "Origin": EVIL,
            "Access-Control-Request-Method": "POST",
            "Access-Control-Request-Headers": "content-type",
        },
    )
    assert told.status_code == 204
    assert told.headers["Access-Control-Allow-Origin"] == "*"
    assert "Authorization" not in told.headers["Access-Control-Allow-Headers"]


def test_tokens_of_many_networks_are_of_no_use_from_one_address(settings: Settings) -> None:
    """Whoever gets at tokens by other means: each is good in the network that opened it."""
    tokens = []
    for number in range(3):
        with visitor(settings, number) as browser:
            tokens.append(open_from(browser, "http://testserver").json()["token"])
    with visitor(settings, 0) as attacker:
        answers = [
            attacker.post(
                "/v1/leases",
                json={"wait_s": 0},
                headers={"Authorization": f"Bearer {token}", "Origin": "http://testserver"},
            )
            for token in tokens
        ]
    assert [answer.status_code for answer in answers] == [204, 401, 401]
    assert "another network" in answers[1].json()["detail"]


def test_identities_of_many_networks_count_where_their_last_session_was(
    settings: Settings, db: Connection
) -> None:
    identities = []
    for number in range(3):
        with visitor(settings, number) as browser:
            identities.append(browser.post("/v1/sessions", json=SESSION).json()["identity"])
    assert db.execute("SELECT count(DISTINCT network) FROM identity").fetchone() == (3,)
    with visitor(settings, 9) as attacker:
        for identity in identities:
            body = {**SESSION, "identity": identity}
            assert attacker.post("/v1/sessions", json=body).status_code == 201
    assert db.execute("SELECT count(DISTINCT network) FROM identity").fetchone() == (1,)
    sessions = db.execute("SELECT count(DISTINCT network) FROM agent_session").fetchone()
    assert sessions == (4,)


def test_moving_identities_away_makes_no_room_for_more_of_the_network(settings: Settings) -> None:
    """The cap of these tests is two identities of a network and day."""
    with visitor(settings, 1) as browser:
        made = [browser.post("/v1/sessions", json=SESSION).json()["identity"] for _ in range(2)]
    with visitor(settings, 2) as elsewhere:
        for identity in made:
            assert elsewhere.post("/v1/sessions", json={**SESSION, "identity": identity}).is_success
        assert elsewhere.post("/v1/sessions", json=SESSION).status_code == 429
    with visitor(settings, 1) as browser:
        assert browser.post("/v1/sessions", json=SESSION).status_code == 429


def test_a_token_is_of_no_use_to_a_page_of_another_origin(http: TestClient, shop: str) -> None:
    given = open_from(http, "http://testserver").json()
    bearer = {"Authorization": f"Bearer {given['token']}"}
    body = {"wait_s": 0}
    own = {**bearer, "Origin": "http://testserver"}
    assert http.post("/v1/leases", json=body, headers=own).status_code == 204
    for other in ({**bearer, "Origin": SHOP}, bearer):
        assert http.post("/v1/leases", json=body, headers=other).status_code == 401
    taken = open_from(http, SHOP, application=shop, identity=given["identity"])
    assert taken.status_code == 401


def test_a_copy_of_an_identity_ends_a_day_after_its_owner_came_back(
    http: TestClient, db: Connection
) -> None:
    first = http.post("/v1/sessions", json=SESSION).json()["identity"]
    second = http.post("/v1/sessions", json={**SESSION, "identity": first}).json()["identity"]
    assert http.post("/v1/sessions", json={**SESSION, "identity": first}).status_code == 201
    db.execute("UPDATE identity SET renewed_at = now() + interval '25 hours'")
    copy = http.post("/v1/sessions", json={**SESSION, "identity": first})
    assert copy.status_code == 401
    assert "later token" in copy.json()["detail"]
    lifetime = jwt.decode(second, options={"verify_signature": False})
    assert lifetime["exp"] - lifetime["iat"] == 30 * 86_400


def test_an_identity_of_before_tokens_had_origins_is_kept_and_bound(
    http: TestClient, db: Connection, settings: Settings
) -> None:
    opened = http.post("/v1/sessions", json=SESSION).json()["identity"]
    claims = jwt.decode(opened, options={"verify_signature": False})
    old = {"sub": claims["sub"], "aud": "identity", "exp": claims["iat"] + 400 * 86_400}
    kept = jwt.encode(old, settings.token_secret.get_secret_value(), "HS256")
    bound = open_from(http, "http://testserver", identity=kept).json()["identity"]
    told = jwt.decode(bound, options={"verify_signature": False})
    assert (told["sub"], told["org"]) == (claims["sub"], "http://testserver")
    row = db.execute("SELECT count(*) FROM identity").fetchone()
    assert row == (1,)


def test_an_identity_of_the_operators_is_of_no_use_without_the_operators_key(
    http: TestClient, db: Connection
) -> None:
    """A fleet's profile that is stolen would have a voice without any cap."""
    fleet = open_agent(http)
    stolen = http.post("/v1/sessions", json={**SESSION, "identity": fleet.identity})
    assert stolen.status_code == 401
    again = open_agent(http, identity=fleet.identity)
    ids = db.execute("SELECT id FROM identity").fetchall()
    assert ids == [(UUID(_subject(again.identity)),)]


def _subject(token: str) -> str:
    subject: str = jwt.decode(token, options={"verify_signature": False})["sub"]
    return subject


def test_no_redirect_names_the_host_that_was_asked(http: TestClient) -> None:
    for path in ("/v1/zoo/", "/v1/sessions/", "/console/"):
        answer = http.get(path, headers={"Host": "evil.example"}, follow_redirects=False)
        assert answer.status_code == 404
        assert "location" not in answer.headers
    root = http.get("/", headers={"Host": "evil.example"}, follow_redirects=False)
    assert root.headers["location"] == "/console"
