"""The public keys of a zoo, as a JSON Web Key Set (RFC 7517, RFC 8037)."""

from typing import Literal

from services.gateway.wire.model import WireModel


class PublicKey(WireModel):
    """`x` is the key in base64url; `kid` is the same, since a key is its own id here."""

    kty: Literal["OKP"] = "OKP"
    crv: Literal["Ed25519"] = "Ed25519"
    use: Literal["sig"] = "sig"
    kid: str
    x: str


class KeyList(WireModel):
    keys: list[PublicKey]
