"""An application's key: `kz-<its number>-<a random secret>`. The database has the secret's hash.

The secret has 256 bits, so one round of SHA-256 keeps it: there is nothing to guess.
"""

import re
import secrets
from dataclasses import dataclass, field
from hashlib import sha256
from hmac import compare_digest

_KEY = re.compile(r"kz-(?P<number>[0-9]{1,18})-(?P<secret>[A-Za-z0-9_-]{43})")


@dataclass(frozen=True, slots=True, kw_only=True)
class Secret:
    """Of a new key. `text` is shown once."""

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
