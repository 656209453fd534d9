"""Runs queries on a blocking connection."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from psycopg import Connection

from kernelzoo.store.query import Query, Statement, bound, rows_of

Row = TypeVar("Row")
Database = Connection[Any]


@contextmanager
def connected(url: str, statement_s: float = 0) -> Iterator[Database]:
    """Each statement by itself, but for those in a `transaction`. `statement_s`: how long one may
    take before PostgreSQL ends it; 0 leaves what the role is told.
    """
    with Connection.connect(url, autocommit=True) as connection:
        if statement_s:
            limit_statements(connection, statement_s)
        yield connection


def limit_statements(connection: Database, statement_s: float) -> None:
    connection.execute(
        "SELECT set_config('statement_timeout', %s, false)", (f"{round(1000 * statement_s)}ms",)
    )


def fetch_all(connection: Database, query: Query[Row]) -> list[Row]:
    with connection.cursor(row_factory=rows_of(query)) as cursor:
        return cursor.execute(query.sql, bound(query)).fetchall()


def fetch_one(connection: Database, query: Query[Row]) -> Row | None:
    with connection.cursor(row_factory=rows_of(query)) as cursor:
        return cursor.execute(query.sql, bound(query)).fetchone()


def execute(connection: Database, statement: Statement) -> int:
    return connection.execute(statement.sql, bound(statement)).rowcount
