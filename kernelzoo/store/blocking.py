"""Runs queries on a blocking connection."""

from typing import Any, TypeVar

from psycopg import Connection
from psycopg.rows import class_row

from kernelzoo.store.query import Query, Statement

Row = TypeVar("Row")


def fetch_all(connection: Connection[Any], query: Query[Row]) -> list[Row]:
    with connection.cursor(row_factory=class_row(query.row)) as cursor:
        return cursor.execute(query.sql, query.parameters).fetchall()


def fetch_one(connection: Connection[Any], query: Query[Row]) -> Row | None:
    with connection.cursor(row_factory=class_row(query.row)) as cursor:
        return cursor.execute(query.sql, query.parameters).fetchone()


def execute(connection: Connection[Any], statement: Statement) -> int:
    return connection.execute(statement.sql, statement.parameters).rowcount
