"""Private Access Tokens: what is forged, copied, foreign or shown again attests nobody."""

import re
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.asymmetric.padding import MGF1, PSS
from cryptography.hazmat.primitives.hashes import SHA384
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from fastapi.testclient import TestClient
from httpx2 import Response

from cli.stack.ports import LOOPBACK, free_port
from kernelzoo.errors import InvalidInput
from kernelzoo.settings import Settings
from services.gateway.app import application
from services.gateway.attestation import private_token
from services.gateway.attestation.private_token import (
    SIGNED_BYTES,
    TOKEN_TYPE,
    base64url,
    from_base64url,
)
from services.gateway.attestation.verifier import verifiers
from tests.database.client import OPERATOR
from tests.database.conftest import Connection
from tests.database.test_attestation import attested, opened, show
from tests.database.test_rates import redis_server

ISSUER = "issuer.example"
NONCE = bytes(range(32))
PSS_SHA384_SALT_48 = bytes.fromhex(
    "303d06092a864886f70d01010a3030a00d300b0609608648016503040202a11a301806092a864886f70d01010830"
    "0b0609608648016503040202a203020130"
)
"""The algorithm of a key as RFC 9578, section 6.5, has it."""


@dataclass(frozen=True, slots=True)
class TestIssuer:
    """Signs what it is given. A real one signs it blinded, which gives the same signature."""

    __test__ = False
    key: rsa.RSAPrivateKey

    @property
    def token_key(self) -> bytes:
        plain = self.key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
        body = PSS_SHA384_SALT_48 + plain[19:]
        return b"\x30\x82" + len(body).to_bytes(2) + body

    def token(self, challenge: bytes, nonce: bytes = NONCE, salt_bytes: int = 48) -> bytes:
        key_id = sha256(self.token_key).digest()
        signed = TOKEN_TYPE.to_bytes(2) + nonce + sha256(challenge).digest() + key_id
        return signed + self.key.sign(signed, PSS(MGF1(SHA384()), salt_bytes), SHA384())


@pytest.fixture(scope="module")
def issuer() -> TestIssuer:
    return TestIssuer(rsa.generate_private_key(65537, 2048))


@pytest.fixture(scope="module")
def stranger() -> TestIssuer:
    return TestIssuer(rsa.generate_private_key(65537, 2048))


@pytest.fixture
def settings(settings: Settings, issuer: TestIssuer, tmp_path: Path) -> Iterator[Settings]:
    port = free_port()
    with redis_server(port, tmp_path):
        yield settings.model_copy(
            update={
                "redis_url": f"redis://{LOOPBACK}:{port}/0",
                "attestation": "private-token",
                "private_token_issuers": f"{ISSUER}={base64url(issuer.token_key)}",
                "origins": "https://zoo.example, https://other.example:8443",
                "identities_per_network_per_day": 20,
            }
        )


def challenged(told: str) -> tuple[bytes, bytes]:
    """The challenge and the key of a WWW-Authenticate header."""
    found = re.fullmatch(r'PrivateToken challenge="([\w=-]+)", token-key="([\w=-]+)"', told)
    assert found, told
    return from_base64url(found[1]), from_base64url(found[2])


def ask(http: TestClient, session: dict[str, Any], token: bytes | None = None) -> Response:
    """Asks as a platform does: the challenge first, then with a token."""
    headers = {} if token is None else {"Authorization": f'PrivateToken token="{base64url(token)}"'}
    body = {"session": session["token"]}
    return http.post("/v1/attestations/private-token", json=body, headers=headers)


def test_a_platform_that_meets_the_challenge_attests_the_identity(
    http: TestClient, db: Connection, issuer: TestIssuer
) -> None:
    session = opened(http)
    (offered,) = session["attestation"]
    asked = ask(http, session)
    assert asked.status_code == 401
    told = asked.headers["WWW-Authenticate"]
    assert offered == {"kind": "private-token", "challenge": told}
    challenge, token_key = challenged(told)
    assert token_key == issuer.token_key
    # struct TokenChallenge of RFC 9577, section 2.1.1.
    name, origins = ISSUER.encode(), b"zoo.example,other.example"
    assert challenge[: 4 + len(name)] == b"\x00\x02" + len(name).to_bytes(2) + name
    assert challenge[4 + len(name)] == 32
    assert challenge[-len(origins) - 2 :] == len(origins).to_bytes(2) + origins
    assert ask(http, session, issuer.token(challenge)).json() == {"attested": True}
    assert attested(db) == 1


def test_forged_copied_foreign_and_stale_tokens_attest_nobody(
    http: TestClient,
    db: Connection,
    issuer: TestIssuer,
    stranger: TestIssuer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one, other = opened(http), opened(http)
    challenge, _ = challenged(ask(http, one).headers["WWW-Authenticate"])
    good = issuer.token(challenge)
    foreign = stranger.token(challenge)
    masked = foreign[: SIGNED_BYTES - 32] + good[SIGNED_BYTES - 32 : SIGNED_BYTES] + foreign[-256:]
    for token in (
        b"",
        good[:-1],
        good + b"\x00",
        b"\x00\x01" + good[2:],
        good[:2] + bytes(32) + good[34:],
        good[:-1] + bytes([good[-1] ^ 1]),
        foreign,
        masked,
        issuer.token(challenge[:-1]),
        issuer.token(challenge, salt_bytes=32),
    ):
        assert ask(http, one, token).status_code in (401, 403)
    assert ask(http, other, good).status_code == 403, "it was asked of another identity"
    later = private_token._period() + 2
    monkeypatch.setattr(private_token, "_period", lambda: later)
    assert show(http, one["token"], base64url(good), "private-token").status_code == 403
    assert attested(db) == 0
    monkeypatch.undo()
    assert ask(http, one, good).status_code == 200, "and it was good"


def test_a_token_is_good_once(
    http: TestClient, db: Connection, settings: Settings, issuer: TestIssuer
) -> None:
    session = opened(http)
    challenge, _ = challenged(session["attestation"][0]["challenge"])
    token = urlsafe_b64encode(issuer.token(challenge)).decode()
    assert show(http, session["token"], token, "private-token").status_code == 200
    with TestClient(application(settings), client=("127.0.0.1", 1)) as another:
        assert show(another, session["token"], token, "private-token").status_code == 403
    db.execute("UPDATE identity SET attested = false")
    assert show(http, session["token"], token, "private-token").status_code == 403
    assert attested(db) == 0


def test_without_redis_no_token_is_taken(
    settings: Settings, db: Connection, issuer: TestIssuer
) -> None:
    alone = settings.model_copy(update={"redis_url": "redis://127.0.0.1:1/0"})
    with TestClient(application(alone), client=("127.0.0.1", 1)) as http:
        session = opened(http)
        challenge, _ = challenged(session["attestation"][0]["challenge"])
        answer = ask(http, session, issuer.token(challenge))
    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "60")
    assert attested(db) == 0


def test_each_of_several_issuers_is_taken(settings: Settings, stranger: TestIssuer) -> None:
    more = f"{settings.private_token_issuers}, second.example={base64url(stranger.token_key)}"
    both = settings.model_copy(update={"private_token_issuers": more})
    with TestClient(application(both), client=("127.0.0.1", 1)) as http:
        session = opened(http)
        _, second = ask(http, session).headers["WWW-Authenticate"].split(", PrivateToken ")
        challenge, token_key = challenged(f"PrivateToken {second}")
        assert token_key == stranger.token_key
        assert ask(http, session, stranger.token(challenge)).status_code == 200


def test_it_is_off_by_default_and_asks_for_a_session(http: TestClient, settings: Settings) -> None:
    assert ask(http, {"token": "x"}).status_code == 401
    assert opened(http, **OPERATOR)["attestation"] == []
    off = settings.model_copy(update={"attestation": ""})
    with TestClient(application(off), client=("127.0.0.1", 1)) as plain:
        assert ask(plain, opened(plain)).status_code == 422


@pytest.mark.parametrize("issuers", ["", "issuer.example", "issuer.example=AAAA", "=AAAA", "a=é"])
def test_a_wrong_list_of_issuers_ends_the_gateway_with_a_sentence(
    settings: Settings, issuers: str
) -> None:
    with pytest.raises(InvalidInput, match="KERNELZOO_PRIVATE_TOKEN_ISSUERS"):
        verifiers(settings.model_copy(update={"private_token_issuers": issuers}))


def test_a_key_of_another_size_is_refused(settings: Settings) -> None:
    other = TestIssuer(rsa.generate_private_key(65537, 3072))
    with pytest.raises(InvalidInput, match="2048 bits"):
        verifiers(
            settings.model_copy(update={"private_token_issuers": f"a={base64url(other.token_key)}"})
        )
