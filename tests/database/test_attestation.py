"""An identity shows something before it speaks for others: forged, copied, too little, or right."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, HTTPServer
from itertools import count
from typing import Any
from urllib.parse import parse_qs

import pytest
from fastapi.testclient import TestClient
from httpx2 import Response
from pydantic import SecretStr

from kernelzoo.errors import InvalidInput
from kernelzoo.settings import Settings
from services.gateway.app import application
from services.gateway.attestation import proof_of_work
from services.gateway.attestation.proof_of_work import PIECE_BITS, PIECES
from services.gateway.attestation.verifier import verifiers
from tests.database.client import OPERATOR, SESSION
from tests.database.conftest import Connection

BITS = 10


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return settings.model_copy(update={"attestation": "proof-of-work", "proof_of_work_bits": BITS})


def opened(http: TestClient, **headers: str) -> dict[str, Any]:
    answer = http.post("/v1/sessions", json=SESSION, headers=headers)
    assert answer.status_code == 201, answer.text
    return dict(answer.json())


def show(http: TestClient, token: str, response: str, kind: str = "proof-of-work") -> Response:
    body = {"kind": kind, "response": response}
    return http.post("/v1/attestations", json=body, headers={"Authorization": f"Bearer {token}"})


def work(challenge: str, bits: int = BITS) -> str:
    """Solves a challenge as an agent does."""
    numbers = [
        next(
            number
            for number in count()
            if int.from_bytes(sha256(f"{challenge}:{piece}:{number}".encode()).digest())
            < 1 << (256 - bits + PIECE_BITS)
        )
        for piece in range(PIECES)
    ]
    return ",".join([challenge, *map(str, numbers)])


def attested(db: Connection) -> int:
    row = db.execute("SELECT count(*) FROM identity WHERE attested").fetchone()
    assert row is not None
    return int(row[0])


def test_a_proof_of_work_attests_its_identity_for_good(http: TestClient, db: Connection) -> None:
    session = opened(http)
    (asked,) = session["attestation"]
    assert show(http, session["token"], work(asked["challenge"])).json() == {"attested": True}
    assert attested(db) == 1
    body = {**SESSION, "identity": session["identity"]}
    assert http.post("/v1/sessions", json=body).json()["attestation"] == []


def test_a_proof_of_another_identity_or_too_little_work_attests_nobody(
    http: TestClient, db: Connection
) -> None:
    one, other = opened(http), opened(http)
    challenge = one["attestation"][0]["challenge"]
    proof = work(challenge)
    bits, expires, mark = challenge.split(".")
    easier = f"1.{expires}.{mark}"
    later = f"{bits}.{int(expires) + 1}.{mark}"
    for token, response in (
        (other["token"], proof),
        (one["token"], proof.rpartition(",")[0]),
        (one["token"], ",".join([challenge, *["0"] * PIECES])),
        (one["token"], work(easier, PIECE_BITS)),
        (one["token"], work(later)),
        (one["token"], "x"),
        (one["token"], "," * 100),
    ):
        assert show(http, token, response).status_code == 403
    assert attested(db) == 0


def test_a_challenge_ends(http: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proof_of_work, "GOOD_FOR_S", -1)
    session = opened(http)
    proof = work(session["attestation"][0]["challenge"])
    assert show(http, session["token"], proof).status_code == 403


def test_nothing_is_asked_of_the_operators_agents_nor_where_it_is_off(
    http: TestClient, settings: Settings
) -> None:
    assert opened(http, **OPERATOR)["attestation"] == []
    off = settings.model_copy(update={"attestation": ""})
    with TestClient(application(off), client=("127.0.0.1", 1)) as plain:
        session = opened(plain)
        assert session["attestation"] == []
        refused = show(plain, session["token"], "anything")
    assert refused.status_code == 422
    assert "it takes none" in refused.json()["detail"]


@contextmanager
def platform(answers: dict[str, bytes]) -> Iterator[tuple[str, list[dict[str, list[str]]]]]:
    """Speaks `siteverify` as Turnstile and hCaptcha document it: the answer to each response once.

    Its address, and the forms that it was sent.
    """
    forms: list[dict[str, list[str]]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
            forms.append(form)
            used = b'{"success": false, "error-codes": ["timeout-or-duplicate"]}'
            wrong = b'{"success": false, "error-codes": ["invalid-input-secret"]}'
            known = answers.pop(form["response"][0], used)
            body = known if form["secret"] == ["s3cret"] else wrong
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/siteverify", forms
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.parametrize("kind", ["turnstile", "hcaptcha"])
def test_a_platform_is_asked_what_its_widget_found(
    settings: Settings, db: Connection, kind: str
) -> None:
    told = {
        "good": json.dumps({"success": True, "hostname": "zoo.example"}).encode(),
        "bad": b'{"success": false, "error-codes": ["invalid-input-response"]}',
        "odd": b'{"success": "true"}',
    }
    with platform(told) as (url, forms):
        chosen = settings.model_copy(
            update={
                "attestation": kind,
                f"{kind}_url": url,
                f"{kind}_secret": SecretStr("s3cret"),
            }
        )
        with TestClient(application(chosen), client=("127.0.0.1", 1)) as http:
            token = opened(http)["token"]
            for response in ("bad", "odd", "unknown"):
                assert show(http, token, response, kind).status_code == 403
            assert attested(db) == 0
            assert show(http, token, "good", kind).status_code == 200
            assert attested(db) == 1
            assert show(http, token, "good", kind).status_code == 403, "a response is good once"
    assert forms[0] == {"secret": ["s3cret"], "response": ["bad"], "remoteip": ["127.0.0.1"]}


def test_a_platform_that_is_away_or_answers_nonsense_attests_nobody(
    settings: Settings, db: Connection
) -> None:
    with platform({"nonsense": b"<html>"}) as (url, _):
        chosen = settings.model_copy(
            update={
                "attestation": "turnstile",
                "turnstile_url": url,
                "turnstile_secret": SecretStr("s3cret"),
            }
        )
        with TestClient(application(chosen), client=("127.0.0.1", 1)) as http:
            token = opened(http)["token"]
            answers = [show(http, token, "nonsense", "turnstile")]
    with TestClient(application(chosen), client=("127.0.0.1", 1)) as http:
        answers.append(show(http, opened(http)["token"], "good", "turnstile"))
    assert [each.status_code for each in answers] == [503, 503]
    assert answers[0].headers["Retry-After"] == "60"
    assert attested(db) == 0


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"attestation": "captcha"}, "names 'captcha'"),
        ({"attestation": "turnstile"}, "KERNELZOO_TURNSTILE_SECRET"),
        (
            {
                "attestation": "hcaptcha",
                "hcaptcha_secret": SecretStr("s"),
                "hcaptcha_url": "file:///etc/passwd",
            },
            "is no address",
        ),
    ],
)
def test_a_wrong_choice_ends_the_gateway_with_a_sentence(
    settings: Settings, change: dict[str, Any], words: str
) -> None:
    with pytest.raises(InvalidInput, match=words):
        verifiers(settings.model_copy(update=change))
