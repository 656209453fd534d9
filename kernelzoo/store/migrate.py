"""Brings a database to the current schema: `python -m kernelzoo.store.migrate`.

Migrations are SQL files, applied once each in the order of their numbers, each in its own
transaction. Processes that start together take turns through an advisory lock.
"""

import os
import sys
from pathlib import Path

import psycopg

MIGRATIONS = Path(__file__).parent / "migrations"
_LOCK = 0x6B7A6F6F


def migrate(database_url: str) -> tuple[str, ...]:
    """Applies what is missing. Returns the names of the files applied."""
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("SELECT pg_advisory_lock(%s)", (_LOCK,))
        connection.execute(
            "CREATE TABLE IF NOT EXISTS migration (name text PRIMARY KEY,"
            " applied_at timestamptz NOT NULL DEFAULT now())"
        )
        done = {row[0] for row in connection.execute("SELECT name FROM migration")}
        missing = [path for path in sorted(MIGRATIONS.glob("*.sql")) if path.stem not in done]
        for path in missing:
            with connection.transaction():
                connection.execute(path.read_bytes())
                connection.execute("INSERT INTO migration (name) VALUES (%s)", (path.stem,))
    return tuple(path.stem for path in missing)


def main() -> int:
    url = os.environ.get("KERNELZOO_DATABASE_URL")
    if not url:
        print("set KERNELZOO_DATABASE_URL to the database to migrate", file=sys.stderr)
        return 2
    for name in migrate(url):
        print(f"applied {name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
