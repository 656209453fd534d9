"""States what the ways to attest an identity have in common, and which of them the operator
chose."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Protocol
from urllib.parse import urlsplit

from kernelzoo.errors import InvalidInput
from kernelzoo.settings import Settings
from services.gateway.attestation.private_token import Issuer, PrivateTokens
from services.gateway.attestation.proof_of_work import ProofOfWork
from services.gateway.attestation.site_verify import HCAPTCHA_URL, TURNSTILE_URL, SiteVerify
from services.gateway.attestation.spent import SpentNames
from services.gateway.tokens import Session


class AttestationKind(StrEnum):
    PROOF_OF_WORK = "proof-of-work"
    TURNSTILE = "turnstile"
    HCAPTCHA = "hcaptcha"
    PRIVATE_TOKEN = "private-token"  # noqa: S105 - the name of a kind


class Verifier(Protocol):
    def challenge(self, session: Session) -> str:
        """Returns what the page needs to answer; '' where it has that from the platform."""

    async def verify(self, session: Session, response: str, address: str) -> bool:
        """Returns whether this identity showed it. Raises Refusal (503) where nobody can tell
        now."""


def verifiers(settings: Settings) -> Mapping[AttestationKind, Verifier]:
    """Makes the verifiers that the operator chose, in its order. Raises InvalidInput for an unknown
    one, or one without its secret.
    """
    names = [name.strip() for name in settings.attestation.split(",") if name.strip()]
    return {_kind(name): _verifier(_kind(name), settings) for name in names}


def _kind(name: str) -> AttestationKind:
    try:
        return AttestationKind(name)
    except ValueError as error:
        raise InvalidInput(
            f"KERNELZOO_ATTESTATION names {name[:40]!r}; write some of {', '.join(AttestationKind)}"
        ) from error


def _verifier(kind: AttestationKind, settings: Settings) -> Verifier:
    match kind:
        case AttestationKind.PROOF_OF_WORK:
            secret = settings.token_secret.get_secret_value()
            return ProofOfWork(secret=secret, bits=settings.proof_of_work_bits)
        case AttestationKind.TURNSTILE:
            secret, url = settings.turnstile_secret.get_secret_value(), settings.turnstile_url
            usual = TURNSTILE_URL
        case AttestationKind.HCAPTCHA:
            secret, url = settings.hcaptcha_secret.get_secret_value(), settings.hcaptcha_url
            usual = HCAPTCHA_URL
        case AttestationKind.PRIVATE_TOKEN:
            return _private_tokens(settings)
    if not secret:
        raise InvalidInput(
            f"KERNELZOO_ATTESTATION names {kind}, which needs KERNELZOO_{kind.upper()}_SECRET"
        )
    return SiteVerify(url=url or usual, secret=secret)


def _private_tokens(settings: Settings) -> PrivateTokens:
    issuers = [each for each in settings.private_token_issuers.split(",") if each.strip()]
    if not issuers:
        raise InvalidInput(
            f"KERNELZOO_ATTESTATION names {AttestationKind.PRIVATE_TOKEN}, which needs "
            "KERNELZOO_PRIVATE_TOKEN_ISSUERS: name=token-key, with commas between several"
        )
    hosts = (urlsplit(origin.strip()).hostname for origin in settings.origins.split(","))
    return PrivateTokens(
        issuers=tuple(Issuer.parse(each) for each in issuers),
        origins=tuple(host for host in hosts if host),
        secret=settings.token_secret.get_secret_value(),
        spent=SpentNames(settings.redis_url),
    )
