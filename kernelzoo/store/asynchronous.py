"""Runs queries on an asyncio connection."""

from typing import Any, TypeVar

from psycopg import AsyncConnection
from psycopg.rows import class_row

from kernelzoo.store.query import Query, Statement

Row = TypeVar("Row")


async def fetch_all(connection: AsyncConnection[Any], query: Query[Row]) -> list[Row]:
    async with connection.cursor(row_factory=class_row(query.row)) as cursor:
        await cursor.execute(query.sql, query.parameters)
        return await cursor.fetchall()


async def fetch_one(connection: AsyncConnection[Any], query: Query[Row]) -> Row | None:
    async with connection.cursor(row_factory=class_row(query.row)) as cursor:
        await cursor.execute(query.sql, query.parameters)
        return await cursor.fetchone()


async def execute(connection: AsyncConnection[Any], statement: Statement) -> int:
    cursor = await connection.execute(statement.sql, statement.parameters)
    return cursor.rowcount
