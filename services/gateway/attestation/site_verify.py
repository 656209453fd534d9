"""Cloudflare Turnstile and hCaptcha: the page shows their widget, and they are asked what it found.

Both have one protocol: a form with `secret`, `response` and `remoteip` is posted to `siteverify`,
and JSON with `success` comes back. A response is good once.
https://developers.cloudflare.com/turnstile/get-started/server-side-validation/
https://docs.hcaptcha.com/#verify-the-user-response-server-side
"""

import json
from dataclasses import dataclass, field
from http import HTTPStatus
from urllib.parse import urlencode
from urllib.request import Request, urlopen

import structlog
from fastapi.concurrency import run_in_threadpool

from kernelzoo.errors import InvalidInput
from services.gateway.problems import Refusal
from services.gateway.tokens import Session

log = structlog.get_logger(__name__)

TURNSTILE_URL = "https://challenges.cloudflare.com/turnstile/v0/siteverify"
HCAPTCHA_URL = "https://api.hcaptcha.com/siteverify"
PATIENCE_S = 5.0
LONGEST = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteVerify:
    url: str
    secret: str = field(repr=False)

    def __post_init__(self) -> None:
        if not self.url.startswith(("https://", "http://")):
            raise InvalidInput(f"{self.url[:60]!r} is no address to verify attestations at")

    def challenge(self, session: Session) -> str:  # noqa: ARG002 - as Verifier
        return ""

    async def verify(self, session: Session, response: str, address: str) -> bool:  # noqa: ARG002 - as Verifier
        """Raises Refusal (503) where the platform does not answer."""
        form = urlencode({"secret": self.secret, "response": response, "remoteip": address})
        try:
            answer = await run_in_threadpool(self._ask, form.encode())
            found = json.loads(answer)
        except (OSError, ValueError) as error:
            log.warning("attestation away", url=self.url, error=str(error))
            raise Refusal(
                HTTPStatus.SERVICE_UNAVAILABLE,
                "the attestation cannot be checked now; go on measuring, and show a new one later",
                {"Retry-After": "60"},
            ) from error
        return isinstance(found, dict) and found.get("success") is True

    def _ask(self, form: bytes) -> bytes:
        # Of http or https alone: the operator's setting is refused else.
        with urlopen(Request(self.url, form), timeout=PATIENCE_S) as answer:  # noqa: S310
            told: bytes = answer.read(LONGEST)
        return told
