"""A query as a value: its SQL, its parameters and the type of its rows."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Generic, LiteralString, TypeVar

Row = TypeVar("Row")
Parameter = str | bytes | int | float | bool | None | list[str] | list[int] | list[float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Query(Generic[Row]):
    """Rows are built by column name as `row(**columns)`."""

    sql: LiteralString
    row: type[Row]
    parameters: Mapping[str, Parameter] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """SQL that returns no rows; running it gives the number of rows it touched."""

    sql: LiteralString
    parameters: Mapping[str, Parameter] = field(default_factory=dict)
