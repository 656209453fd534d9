"""Lists of rows as the interface tells them."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import structlog
from pydantic import BaseModel

log = structlog.get_logger(__name__)

Row = TypeVar("Row")
Told = TypeVar("Told", bound=BaseModel)


def listed(rows: Iterable[Row], tell: Callable[[Row], Told]) -> list[Told]:
    """Tells each row, but for those that cannot be told."""
    found = []
    for row in rows:
        with telling(row):
            found.append(tell(row))
    return found


@contextmanager
def telling(row: object) -> Iterator[None]:
    """Ends where the row cannot be told, whatever is wrong with it, and has the log name it: it
    would take its list from everybody.
    """
    try:
        yield
    except Exception as error:  # noqa: BLE001 - named in the log
        log.error("a row is left out of a list", row=repr(row)[:500], error=repr(error))
