"""Counts the rows that a query takes from a table: what decides how long it takes as the table
grows."""

from collections.abc import Iterator, Sequence
from typing import Any

from kernelzoo.store.query import Query, Statement, bound
from tests.database.conftest import Connection

BY_INDEXES = ("seqscan", "hashjoin", "mergejoin", "bitmapscan")
"""Ways that are not taken where there are many rows."""


def rows_read(
    db: Connection,
    asked: Query[Any] | Statement,
    table: str,
    without: Sequence[str] = BY_INDEXES,
) -> int:
    """Counts rows of a query that goes by indexes, as it does where there are many, or `without`
    other ways of PostgreSQL's: at least so many, as a plan tells rows that a filter removed as
    whole numbers for each loop."""
    explain = f"EXPLAIN (ANALYZE, FORMAT JSON) {asked.sql}"
    with db.transaction():
        for way in without:
            db.execute(f"SET LOCAL enable_{way} = off".encode())
        row = db.execute(explain.encode(), bound(asked)).fetchone()
    assert row is not None

    def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
        yield plan
        for below in plan.get("Plans", ()):
            yield from nodes(below)

    return sum(
        round((node["Actual Rows"] + _removed(node)) * node["Actual Loops"])
        for node in nodes(row[0][0]["Plan"])
        if node.get("Relation Name") == table
    )


def _removed(node: dict[str, Any]) -> float:
    """The fewest rows of a loop that are told as so many."""
    told: int = node.get("Rows Removed by Filter", 0)
    return max(0.0, told - 0.5) if node["Actual Loops"] > 1 else told
