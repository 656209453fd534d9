"""Signed tokens: a session for an hour, an identity for good. No server-side lookup."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
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
        claims = self._claims(token, "session")
        return Session(
            session_id=int(claims["sid"]),
            identity_id=UUID(claims["sub"]),
            device_class=DeviceClass.parse(claims["cls"]),
            application_id=int(claims.get("app", 0)) or None,
        )

    def identity(self, token: str) -> UUID:
        """Raises Refusal (401) for a token that is forged, expired or of another kind."""
        return UUID(self._claims(token, "identity")["sub"])

    def network(self, address: str) -> str:
        """Keyed hash of the address's /24 or /48: what tells networks apart without naming them."""
        parsed = _address(address)
        network = ip_network(f"{parsed}/{_PREFIX_BITS[parsed.version]}", strict=False)
        return hmac(self.secret.encode(), str(network).encode(), "sha256").hexdigest()[:32]

    def _issue(self, kind: str, lifetime: timedelta, claims: dict[str, str | int]) -> str:
        expires = datetime.now(UTC) + lifetime
        return jwt.encode({**claims, "aud": kind, "exp": expires}, self.secret, _ALGORITHM)

    def _claims(self, token: str, kind: str) -> dict[str, str]:
        try:
            claims: dict[str, str] = jwt.decode(
                token,
                self.secret,
                algorithms=[_ALGORITHM],
                audience=kind,
                options={"require": ["exp", "sub"]},
            )
        except jwt.ExpiredSignatureError:
            raise _unauthorized(f"this {kind} token has expired") from None
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
