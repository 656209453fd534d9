"""A cursor says where the next page of a list begins: the last row of this one, as texts that order
rows."""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Annotated

import msgspec
from fastapi import Query

from kernelzoo.errors import InvalidInput

Cursor = Annotated[
    str | None,
    Query(
        max_length=1024,
        description="`next` of the page before; a list that is read so has every row that was "
        "there from the first page to the last once.",
    ),
]


def cursor(*last: str) -> str:
    return urlsafe_b64encode(msgspec.json.encode(last)).decode().rstrip("=")


def position(text: str, parts: int) -> tuple[str, ...]:
    """The texts that a cursor is made of. Raises InvalidInput where it is of no such list."""
    try:
        body = urlsafe_b64decode(text + "=" * (-len(text) % 4))
        last = msgspec.json.decode(body, type=tuple[str, ...])
    except (ValueError, msgspec.MsgspecError):
        last = ()
    if len(last) != parts or any("\0" in part for part in last):
        raise InvalidInput(
            f"after={text[:80]!r} is no cursor of this list; give `next` of the page before, or "
            "leave it out for the first page"
        )
    return last
