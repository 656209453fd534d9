"""Runs queries on an asyncio connection."""

from typing import Any, TypeVar

from psycopg import AsyncConnection

from kernelzoo.store.query import Query, Statement, bound, rows_of

Row = TypeVar("Row")


async def fetch_all(connection: AsyncConnection[Any], query: Query[Row]) -> list[Row]:
    async with connection.cursor(row_factory=rows_of(query)) as cursor:
        await cursor.execute(query.sql, bound(query))
        return await cursor.fetchall()


async def fetch_one(connection: AsyncConnection[Any], query: Query[Row]) -> Row | None:
    async with connection.cursor(row_factory=rows_of(query)) as cursor:
        await cursor.execute(query.sql, bound(query))
        return await cursor.fetchone()


async def execute(connection: AsyncConnection[Any], statement: Statement) -> int:
    cursor = await connection.execute(statement.sql, bound(statement))
    return cursor.rowcount
