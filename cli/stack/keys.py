"""The three secrets of a stack, generated once and readable by their owner alone."""

import os
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from cli.stack.place import Place
from kernelzoo.signing import new_seed


@dataclass(frozen=True, slots=True, kw_only=True)
class Keys:
    operator: str = field(repr=False)
    token_secret: str = field(repr=False)
    signing: str = field(repr=False)


def read_or_make_keys(place: Place) -> Keys:
    place.keys.mkdir(mode=0o700, parents=True, exist_ok=True)
    return Keys(
        operator=_read_or_make(place.keys / "operator", _random),
        token_secret=_read_or_make(place.keys / "token-secret", _random),
        signing=_read_or_make(place.keys / "signing", new_seed),
    )


def _random() -> str:
    return secrets.token_urlsafe(32)


def _read_or_make(file: Path, make: Callable[[], str]) -> str:
    """The file is created with its mode, so there is no moment in which others can read it."""
    if not file.exists():
        draft = file.with_suffix(".draft")
        draft.unlink(missing_ok=True)
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w") as handle:
            handle.write(make())
        draft.rename(file)
    return file.read_text().strip()
