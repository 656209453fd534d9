"""Callers show these: tokens of sessions and identities, applications' keys, the operator's key.

A token is signed: of a session for minutes, of an identity for weeks. It is good where it was
given: a session's in the network and at the origin that opened it, an identity's at its origin. So
a page that makes a visitor's browser open a session can use neither from anywhere else.

An application's key is `kz-<its number>-<a random secret>`. The database has the secret's hash. The
secret has 256 bits, so one round of SHA-256 keeps it: there is nothing to guess.
"""

import re
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from hashlib import sha256
from hmac import compare_digest
from hmac import new as hmac
from http import HTTPStatus
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Any
from uuid import UUID

import jwt

from kernelzoo.domain.device import DeviceClass
from services.gateway.problems import Refusal

LOCAL = "127.0.0.1"
"""Requests over a socket of this machine have no address; they get this one."""

_ALGORITHM = "HS256"
IDENTITY_DAYS = 30
REPLACED_FOR = timedelta(days=1)
"""An identity's token is taken for so long after a later one was given: two tabs share an
identity."""
_LONGEST_DAYS = 400
"""For which tokens were given before they told when."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """`application_id`: it measures what this application registered, and nothing else. `network`:
    where it was opened from, as `Tokens.network` tells it. `origin`: of the page that opened it, ''
    for a program. `operated`: the identity was opened with the operator's key.
    """

    session_id: int
    identity_id: UUID
    device_class: DeviceClass
    application_id: int | None
    network: str
    origin: str
    operated: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Claimed:
    """The token of an identity says this. `origin`: None for one of before tokens had any."""

    identity_id: UUID
    issued_at: datetime
    origin: str | None

    def was_replaced(self, renewed_at: datetime) -> bool:
        """Returns whether a later token was given so long ago that this must be a copy."""
        return self.issued_at < renewed_at - REPLACED_FOR


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
                "net": session.network,
                "org": session.origin,
                "opr": session.operated,
            },
        )

    def issue_identity(self, identity_id: UUID, origin: str) -> str:
        claims = {"sub": str(identity_id), "org": origin}
        return self._issue("identity", timedelta(days=IDENTITY_DAYS), claims)

    def session(self, token: str, *, network: str, origin: str) -> Session:
        """Raises Refusal (401) for a token that is forged, expired, of another kind, or shown from
        another network or origin than it was given to.
        """
        session, expires_s = _session(self.secret, token)
        if expires_s <= time.time():
            raise _expired("session")
        if session.origin != origin:
            raise unauthorized("this session was opened by a page of another origin")
        if session.network != network:
            raise unauthorized("this session was opened from another network")
        return session

    def holder(self, token: str) -> UUID | None:
        """The identity whose session this is the token of; None for no such token."""
        try:
            return _session(self.secret, token)[0].identity_id
        except Refusal:
            return None

    def identity(self, token: str, *, origin: str) -> Claimed:
        """Raises Refusal (401) for a token that is forged, expired, of another kind or origin."""
        claims = _claims(self.secret, token, "identity")
        claimed = Claimed(
            identity_id=UUID(claims["sub"]),
            issued_at=_issued_at(claims),
            origin=claims.get("org"),
        )
        if claimed.origin not in (None, origin):
            raise unauthorized("this identity was given to a page of another origin")
        return claimed

    def network(self, address: str) -> str:
        """Keyed hash of the address's /24 or /48: what tells networks apart without naming them."""
        return _network(self.secret, address)

    def _issue(self, kind: str, lifetime: timedelta, claims: Mapping[str, str | int]) -> str:
        now = datetime.now(UTC)
        times = {"iat": now, "exp": now + lifetime}
        return jwt.encode({**claims, **times, "aud": kind}, self.secret, _ALGORITHM)


def prefix(address: IPv4Address | IPv6Address) -> str:
    """The /24 or /48 that an address lies in, which is what counts as one network."""
    found = getattr(address, "ipv4_mapped", None) or address
    if isinstance(found, IPv4Address):
        return str(IPv4Network((int(found), 24), strict=False))
    return str(IPv6Network((int(found), 48), strict=False))


def group_of(address: IPv4Address | IPv6Address) -> str:
    """The networks that may well be of one owner: the /24 of an address, or the /32 that a
    provider of IPv6 gets, of which one who hosts is easily given many /48."""
    found = getattr(address, "ipv4_mapped", None) or address
    if isinstance(found, IPv4Address):
        return prefix(found)
    return str(IPv6Network((int(found), 32), strict=False))


@lru_cache(maxsize=4096)
def _network(secret: str, address: str) -> str:
    network = prefix(ip_address(address.partition("%")[0]))
    return hmac(secret.encode(), network.encode(), "sha256").hexdigest()[:32]


@lru_cache(maxsize=4096)
def _session(secret: str, token: str) -> tuple[Session, float]:
    """Returns what a token says, and when it expires in seconds since 1970. An agent shows the same
    one for minutes, and to check it anew took a quarter of the time of a report.
    """
    claims = _claims(secret, token, "session")
    session = Session(
        session_id=int(claims["sid"]),
        identity_id=UUID(claims["sub"]),
        device_class=DeviceClass.stored(claims["cls"]),
        application_id=int(claims.get("app", 0)) or None,
        network=claims.get("net", ""),
        origin=claims.get("org", ""),
        operated=bool(claims.get("opr", False)),
    )
    return session, float(claims["exp"])


def _issued_at(claims: dict[str, Any]) -> datetime:
    if "iat" in claims:
        return datetime.fromtimestamp(float(claims["iat"]), UTC)
    return datetime.fromtimestamp(float(claims["exp"]), UTC) - timedelta(days=_LONGEST_DAYS)


def _claims(secret: str, token: str, kind: str) -> dict[str, Any]:
    try:
        claims: dict[str, Any] = jwt.decode(
            token,
            secret,
            algorithms=[_ALGORITHM],
            audience=kind,
            options={"require": ["exp", "sub"]},
        )
    except jwt.ExpiredSignatureError:
        raise _expired(kind) from None
    except jwt.InvalidTokenError:
        raise unauthorized(f"this is no valid {kind} token") from None
    return claims


def is_operator(given: str | None, operator_key: str) -> bool:
    """Raises Refusal (403) for a key that is given and wrong."""
    if given is None:
        return False
    if not compare_digest(given.encode(), operator_key.encode()):
        raise Refusal(HTTPStatus.FORBIDDEN, "the operator key is wrong")
    return True


def _expired(kind: str) -> Refusal:
    return unauthorized(f"this {kind} token has expired")


def unauthorized(detail: str) -> Refusal:
    """An agent opens a new session when it is told this."""
    return Refusal(
        HTTPStatus.UNAUTHORIZED,
        f"{detail}; open a new session at /v1/sessions",
        {"WWW-Authenticate": "Bearer"},
    )


_KEY = re.compile(r"kz-(?P<number>[0-9]{1,18})-(?P<secret>[A-Za-z0-9_-]{43})")


@dataclass(frozen=True, slots=True, kw_only=True)
class Secret:
    """The random part of a key. `text` is shown once."""

    text: str = field(repr=False)

    @property
    def hash(self) -> str:
        return sha256(self.text.encode()).hexdigest()

    def key(self, number: int) -> str:
        return f"kz-{number}-{self.text}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplicationKey:
    number: int
    secret: Secret

    @classmethod
    def parse(cls, text: str) -> "ApplicationKey | None":
        match = _KEY.fullmatch(text)
        if match is None:
            return None
        return cls(number=int(match["number"]), secret=Secret(text=match["secret"]))

    def opens(self, key_hash: str) -> bool:
        """Takes as long for any wrong key."""
        return compare_digest(self.secret.hash, key_hash)


def new_secret() -> Secret:
    return Secret(text=secrets.token_urlsafe(32))
