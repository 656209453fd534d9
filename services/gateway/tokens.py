"""Signed tokens: a session for an hour, an identity for good. No server-side lookup."""

import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from hmac import compare_digest
from hmac import new as hmac
from http import HTTPStatus
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from uuid import UUID

import jwt

from kernelzoo.domain.device import DeviceClass
from services.gateway.problems import Refusal

_ALGORITHM = "HS256"
_IDENTITY_DAYS = 400
_PREFIX_BITS = {4: 24, 6: 48}


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """`application_id`: it measures what this application registered, and nothing else."""

    session_id: int
    identity_id: UUID
    device_class: DeviceClass
    application_id: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokens:
    """`secret` signs everything; changing it ends all sessions and forgets all identities."""

    secret: str
    session_s: int

    def issue_session(self, session: Session) -> str:
        return self._issue(
            "session",
            timedelta(seconds=self.session_s),
            {
                "sid": session.session_id,
                "sub": str(session.identity_id),
                "cls": str(session.device_class),
                "app": session.application_id or 0,
            },
        )

    def issue_identity(self, identity_id: UUID) -> str:
        return self._issue("identity", timedelta(days=_IDENTITY_DAYS), {"sub": str(identity_id)})

    def session(self, token: str) -> Session:
        """Raises Refusal (401) for a token that is forged, expired or of another kind."""
        session, expires_s = _session(self.secret, token)
        if expires_s <= time.time():
            raise _expired("session")
        return session

    def identity(self, token: str) -> UUID:
        """Raises Refusal (401) for a token that is forged, expired or of another kind."""
        return UUID(_claims(self.secret, token, "identity")["sub"])

    def network(self, address: str) -> str:
        """Keyed hash of the address's /24 or /48: what tells networks apart without naming them."""
        parsed = _address(address)
        network = ip_network(f"{parsed}/{_PREFIX_BITS[parsed.version]}", strict=False)
        return hmac(self.secret.encode(), str(network).encode(), "sha256").hexdigest()[:32]

    def _issue(self, kind: str, lifetime: timedelta, claims: dict[str, str | int]) -> str:
        expires = datetime.now(UTC) + lifetime
        return jwt.encode({**claims, "aud": kind, "exp": expires}, self.secret, _ALGORITHM)


@lru_cache(maxsize=4096)
def _session(secret: str, token: str) -> tuple[Session, float]:
    """What a token says, and when it expires in seconds since 1970. An agent shows the same one for
    an hour, and to check it anew took a quarter of the time of a report.
    """
    claims = _claims(secret, token, "session")
    session = Session(
        session_id=int(claims["sid"]),
        identity_id=UUID(claims["sub"]),
        device_class=DeviceClass.parse(claims["cls"]),
        application_id=int(claims.get("app", 0)) or None,
    )
    return session, float(claims["exp"])


def _claims(secret: str, token: str, kind: str) -> dict[str, str]:
    try:
        claims: dict[str, str] = jwt.decode(
            token,
            secret,
            algorithms=[_ALGORITHM],
            audience=kind,
            options={"require": ["exp", "sub"]},
        )
    except jwt.ExpiredSignatureError:
        raise _expired(kind) from None
    except jwt.InvalidTokenError:
        raise _unauthorized(f"this is no valid {kind} token") from None
    return claims


def is_operator(given: str | None, operator_key: str) -> bool:
    """Raises Refusal (403) for a key that is given and wrong."""
    if given is None:
        return False
    if not compare_digest(given.encode(), operator_key.encode()):
        raise Refusal(HTTPStatus.FORBIDDEN, "the operator key is wrong")
    return True


def _expired(kind: str) -> Refusal:
    return _unauthorized(f"this {kind} token has expired")


def _unauthorized(detail: str) -> Refusal:
    return Refusal(
        HTTPStatus.UNAUTHORIZED,
        f"{detail}; open a new session at /v1/sessions",
        {"WWW-Authenticate": "Bearer"},
    )


def _address(text: str) -> IPv4Address | IPv6Address:
    parsed = ip_address(text)
    mapped = getattr(parsed, "ipv4_mapped", None)
    return mapped or parsed
