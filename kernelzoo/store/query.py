"""A query as a value: its SQL, its parameters and the type of its rows.

A device class is text in a row and an artifact's manifest is JSON; in Python both are values of the
domain. They are read where a field of the row's type is one, and a device class is written as text
where it is a parameter. Rows of lists, which are told as they are, keep the text: one that cannot
be read would take the whole list from everybody.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from functools import cache, lru_cache
from typing import Any, Generic, LiteralString, TypeVar, get_type_hints

import msgspec
from psycopg.rows import BaseRowFactory, class_row, kwargs_row

from kernelzoo.domain.artifact import ArtifactManifest
from kernelzoo.domain.device import DeviceClass

Row = TypeVar("Row")
Parameter = (
    str
    | bytes
    | int
    | float
    | bool
    | DeviceClass
    | None
    | list[str]
    | list[int]
    | list[float]
    | list[DeviceClass]
)


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


def bound(asked: Query[Any] | Statement) -> dict[str, object]:
    """The parameters as psycopg takes them."""
    return {name: _bound(value) for name, value in asked.parameters.items()}


def _bound(value: Parameter) -> object:
    if isinstance(value, DeviceClass):
        return str(value)
    return [_bound(each) for each in value] if isinstance(value, list) else value


def rows_of(query: Query[Row]) -> BaseRowFactory[Row]:
    """Builds the rows of the query's type. Raises InvalidInput for a malformed device class."""
    built: Any = query.row
    readers = _readers(built)
    if not readers:
        return class_row(query.row)

    def row(**columns: Any) -> Row:
        for name, read in readers:
            columns[name] = read(columns[name])
        return query.row(**columns)

    return kwargs_row(row)


def _read_manifest(stored: dict[str, object]) -> ArtifactManifest:
    return msgspec.convert(stored, ArtifactManifest)


_READ: Mapping[Any, Callable[[Any], object]] = {
    DeviceClass: lru_cache(maxsize=1 << 12)(DeviceClass.stored),
    ArtifactManifest: _read_manifest,
}


@cache
def _readers(row: Any) -> tuple[tuple[str, Callable[[Any], object]], ...]:
    types = get_type_hints(row)
    return tuple(
        (each.name, _READ[types[each.name]]) for each in fields(row) if types[each.name] in _READ
    )
