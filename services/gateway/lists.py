"""Lists of rows as the interface tells them."""

from collections.abc import Callable, Iterable
from typing import TypeVar

import structlog
from pydantic import BaseModel, ValidationError

log = structlog.get_logger(__name__)

Row = TypeVar("Row")
Told = TypeVar("Told", bound=BaseModel)


def listed(rows: Iterable[Row], tell: Callable[[Row], Told]) -> list[Told]:
    """Tells each row, but for those that the interface has no words for, which the log names: one
    of them would take the list from everybody.
    """
    found = []
    for row in rows:
        try:
            found.append(tell(row))
        except ValidationError as error:
            log.error("a row is left out of a list", row=repr(row)[:500], error=str(error))
    return found
