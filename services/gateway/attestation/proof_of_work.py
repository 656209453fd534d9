"""A second of a processor: numbers whose hashes begin with zeros.

A challenge is of one identity and holds for ten minutes. It has `PIECES` parts, for each of which
a number is to be found such that SHA-256 of `challenge:piece:number` begins with `bits` - 4 zero
bits: 2^bits hashes in all on the average, and with sixteen parts seldom twice as many. Nothing is
stored.
"""

import time
from dataclasses import dataclass
from hashlib import sha256
from hmac import compare_digest
from hmac import new as hmac

from services.gateway.tokens import Session

PIECES = 16
PIECE_BITS = 4
"""Each piece is this many bits easier than the whole."""
GOOD_FOR_S = 600


@dataclass(frozen=True, slots=True, kw_only=True)
class ProofOfWork:
    secret: str
    bits: int

    def challenge(self, session: Session) -> str:
        """`bits.expiry.mark`: whom it is for is in the mark alone."""
        told = f"{self.bits}.{int(time.time()) + GOOD_FOR_S}"
        return f"{told}.{self._mark(session, told)}"

    async def verify(self, session: Session, response: str, address: str) -> bool:  # noqa: ARG002 - as Verifier
        """`response`: the challenge and a number for each piece, with commas between them."""
        challenge, *numbers = response.split(",")
        told, _, mark = challenge.rpartition(".")
        if not compare_digest(mark.encode(), self._mark(session, told).encode()):
            return False
        bits, _, expires = told.partition(".")
        return (
            int(expires) >= time.time()
            and len(numbers) == PIECES
            and all(
                _zeros(f"{challenge}:{piece}:{number}") >= int(bits) - PIECE_BITS
                for piece, number in enumerate(numbers)
            )
        )

    def _mark(self, session: Session, told: str) -> str:
        what = f"proof-of-work/{session.identity_id}/{told}"
        return hmac(self.secret.encode(), what.encode(), "sha256").hexdigest()[:32]


def _zeros(text: str) -> int:
    """Counts the bits of a text's hash that are zero before the first that is not."""
    return 256 - int.from_bytes(sha256(text.encode()).digest()).bit_length()
