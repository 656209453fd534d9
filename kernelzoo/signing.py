"""Ed25519 signatures (RFC 8032) of what a zoo hands out.

A public key is its own id: 43 characters of base64url, `x` of its JWK (RFC 8037). A private one is
the seed of 32 bytes in the same form, `d`.
"""

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as NoBase64
from dataclasses import asdict, dataclass, field
from typing import Self

from nacl.exceptions import BadSignatureError
from nacl.signing import SigningKey, VerifyKey

from kernelzoo.errors import InvalidInput

KEY_BYTES = 32
SIGNATURE_BYTES = 64
_MEMBER = b',"signatures":'


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """A signature and the public `key` that checks it; both are base64url without padding."""

    key: str
    signature: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Signer:
    """Signs with each of its keys, so that a page may know the old one or the new one.

    Ed25519 needs no random number: every gateway with these keys makes the same bytes.
    """

    _keys: tuple[SigningKey, ...] = field(repr=False)

    @classmethod
    def of(cls, seeds: str) -> Self:
        """`seeds` in base64url with commas between them; '' signs nothing.

        Raises InvalidInput, which does not repeat what it was given.
        """
        given = [seed.strip() for seed in seeds.split(",") if seed.strip()]
        return cls(_keys=tuple(SigningKey(_bytes(seed, "a signing key")) for seed in given))

    @property
    def public_keys(self) -> tuple[str, ...]:
        return tuple(_text(bytes(key.verify_key)) for key in self._keys)

    def sign(self, message: bytes) -> tuple[Signature, ...]:
        return tuple(
            Signature(
                key=_text(bytes(key.verify_key)), signature=_text(key.sign(message).signature)
            )
            for key in self._keys
        )

    def seal(self, document: bytes) -> bytes:
        """A JSON object with a last member `signatures`, which are of its bytes without that."""
        made = json.dumps([asdict(one) for one in self.sign(document)], separators=(",", ":"))
        return b"".join((document[:-1], _MEMBER, made.encode(), b"}"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Sealed:
    """A document that `Signer.seal` made. Believe `document` alone: the last member is signed by
    nobody."""

    document: bytes
    signatures: tuple[Signature, ...]

    @classmethod
    def of(cls, body: bytes) -> Self:
        """Raises InvalidInput for what carries no signatures."""
        document, member, made = body.rpartition(_MEMBER)
        try:
            signatures = tuple(Signature(**each) for each in json.loads(made.removesuffix(b"}")))
        except (ValueError, TypeError):
            signatures = ()
        if not member or not signatures:
            raise InvalidInput("this carries no signature; its zoo has no signing key")
        return cls(document=document + b"}", signatures=signatures)

    def signed_by(self, keys: tuple[str, ...]) -> str | None:
        """The first of `keys` that has signed this, if any."""
        known = (each for each in self.signatures if each.key in keys)
        return next((each.key for each in known if verifies(each, self.document)), None)


def verifies(signature: Signature, message: bytes) -> bool:
    try:
        made = _bytes(signature.signature, "a signature", SIGNATURE_BYTES)
        VerifyKey(_bytes(signature.key, "a public key")).verify(message, made)
    except (BadSignatureError, InvalidInput):
        return False
    return True


def public_key(text: str) -> str:
    """`text` again. Raises InvalidInput for what is no public key."""
    return _text(_bytes(text, "a public key"))


def new_seed() -> str:
    return _text(bytes(SigningKey.generate()))


def _text(raw: bytes) -> str:
    return urlsafe_b64encode(raw).decode().rstrip("=")


def _bytes(text: str, what: str, length: int = KEY_BYTES) -> bytes:
    try:
        raw = urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except (NoBase64, ValueError):
        raw = b""
    if len(raw) != length:
        raise InvalidInput(f"{what} is {length} bytes in base64url; this is something else")
    return raw
