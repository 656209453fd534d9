"""Private Access Tokens: an issuer that knows the device signs a token without seeing it.

The tokens are of type 0x0002, blind RSA with 2048 bits, which anybody can verify who has the
issuer's public key. The challenge and the token are those of RFC 9577 (sections 2.1 and 2.2), the
signature and the key's id those of RFC 9578 (section 6). A challenge is of one identity and of an
hour, so that a token is worth nothing to another; nothing of it is stored but its nonce, once it
was shown.
"""

import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from dataclasses import dataclass, field
from hashlib import sha256
from hmac import compare_digest
from hmac import new as hmac
from typing import Self

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.padding import MGF1, PSS
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.hashes import SHA384
from cryptography.hazmat.primitives.serialization import load_der_public_key

from kernelzoo.errors import InvalidInput
from services.gateway.attestation.spent import SpentNames
from services.gateway.tokens import Session

TOKEN_TYPE = 0x0002
KEY_BITS = 2048
SALT_BYTES = 48
HASH_BYTES = 32
SIGNED_BYTES = 2 + 3 * HASH_BYTES
"""Type, nonce, digest of the challenge, id of the key: what the issuer signed."""
TOKEN_BYTES = SIGNED_BYTES + KEY_BITS // 8
PERIOD_S = 3600
"""A challenge holds for this period and the next."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Issuer:
    """`token_key` is the SubjectPublicKeyInfo that the issuer's directory shows."""

    name: str
    token_key: bytes
    key: RSAPublicKey

    @classmethod
    def parse(cls, text: str) -> Self:
        """`name=token-key`, the key in base64url as its directory shows it. Raises InvalidInput."""
        name, _, encoded = text.strip().partition("=")
        try:
            token_key = from_base64url(encoded)
            key = load_der_public_key(token_key)
        except (ValueError, UnsupportedAlgorithm) as error:
            raise InvalidInput(_wrong(text)) from error
        if not name or not isinstance(key, RSAPublicKey) or key.key_size != KEY_BITS:
            raise InvalidInput(_wrong(text))
        return cls(name=name, token_key=token_key, key=key)

    @property
    def key_id(self) -> bytes:
        return sha256(self.token_key).digest()

    def signed(self, message: bytes, signature: bytes) -> bool:
        try:
            self.key.verify(signature, message, PSS(MGF1(SHA384()), SALT_BYTES), SHA384())
        except InvalidSignature:
            return False
        return True


def _wrong(text: str) -> str:
    return (
        f"KERNELZOO_PRIVATE_TOKEN_ISSUERS names {text.strip()[:60]!r}; write name=token-key, with "
        "commas between several, each key of token type 2 (RSA, 2048 bits) as the issuer's "
        "/.well-known/private-token-issuer-directory has it"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivateTokens:
    """`origins`: host names that the challenge says it is of; without any it is of every one."""

    issuers: tuple[Issuer, ...]
    origins: tuple[str, ...]
    secret: str = field(repr=False)
    spent: SpentNames

    def challenge(self, session: Session) -> str:
        """Writes the header WWW-Authenticate: one challenge for each issuer, any of which may be
        met."""
        now = _period()
        return ", ".join(
            f'PrivateToken challenge="{base64url(self._challenge(issuer, session, now))}", '
            f'token-key="{base64url(issuer.token_key)}"'
            for issuer in self.issuers
        )

    async def verify(self, session: Session, response: str, address: str) -> bool:  # noqa: ARG002 - as Verifier
        """`response`: the token in base64url. Raises Refusal (503) while Redis is away."""
        try:
            token = from_base64url(response)
        except ValueError:
            return False
        if len(token) != TOKEN_BYTES or int.from_bytes(token[:2]) != TOKEN_TYPE:
            return False
        nonce, digest, key_id = (
            token[start : start + HASH_BYTES] for start in range(2, SIGNED_BYTES, HASH_BYTES)
        )
        issuer = next((each for each in self.issuers if each.key_id == key_id), None)
        if issuer is None or not any(
            compare_digest(digest, sha256(self._challenge(issuer, session, period)).digest())
            for period in (_period(), _period() - 1)
        ):
            return False
        if not issuer.signed(token[:SIGNED_BYTES], token[SIGNED_BYTES:]):
            return False
        # Last, so that nobody fills Redis without an issuer's signatures.
        return await self.spent.spend(f"private-token/{nonce.hex()}", good_for_s=2 * PERIOD_S)

    def _challenge(self, issuer: Issuer, session: Session, period: int) -> bytes:
        """TokenChallenge of RFC 9577, section 2.1.1."""
        what = f"private-token/{session.identity_id}/{period}"
        context = hmac(self.secret.encode(), what.encode(), "sha256").digest()
        name, origins = issuer.name.encode(), ",".join(self.origins).encode()
        return b"".join(
            (
                TOKEN_TYPE.to_bytes(2),
                *(len(name).to_bytes(2), name),
                *(len(context).to_bytes(1), context),
                *(len(origins).to_bytes(2), origins),
            )
        )


def _period() -> int:
    return int(time.time()) // PERIOD_S


def base64url(data: bytes) -> str:
    """Encodes with padding, as RFC 9577 asks for."""
    return urlsafe_b64encode(data).decode()


def from_base64url(text: str) -> bytes:
    """Decodes with or without padding. Raises ValueError."""
    return urlsafe_b64decode(text.rstrip("=") + "=" * (-len(text.rstrip("=")) % 4))
