"""Runs queries on a blocking connection."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from psycopg import Connection

from kernelzoo.store.query import Query, Statement, bound, rows_of

Row = TypeVar("Row")
Database = Connection[Any]


@contextmanager
def connected(url: str) -> Iterator[Database]:
    """Each statement by itself, but for those in a `transaction`."""
    with Connection.connect(url, autocommit=True) as connection:
        yield connection


def fetch_all(connection: Database, query: Query[Row]) -> list[Row]:
    with connection.cursor(row_factory=rows_of(query)) as cursor:
        return cursor.execute(query.sql, bound(query)).fetchall()


def fetch_one(connection: Database, query: Query[Row]) -> Row | None:
    with connection.cursor(row_factory=rows_of(query)) as cursor:
        return cursor.execute(query.sql, bound(query)).fetchone()


def execute(connection: Database, statement: Statement) -> int:
    return connection.execute(statement.sql, bound(statement)).rowcount
