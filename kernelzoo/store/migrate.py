"""Brings a database to the current schema: `python -m kernelzoo.store.migrate`.

Migrations are SQL files, applied once each in the order of their numbers, each in its own
transaction; the first makes a schema whole. Gateways and workers of the version before go on
meanwhile: an index of a table that grows is made before its migration, by the file of the same name
in `migrations/concurrently`, which stops nobody; the migration gives it its name. Processes that
start together take turns through an advisory lock. With `--grant-to ROLE` the role that gateway and
workers connect as is then given its rights, also on what the migrations made.
"""

import os
import sys
import time
from argparse import ArgumentParser
from pathlib import Path

import psycopg
from psycopg.sql import SQL, Identifier

from kernelzoo.errors import InvalidInput
from kernelzoo.store.roles import grant

MIGRATIONS = Path(__file__).parent / "migrations"
FIRST = "0061_schema"
"""Makes the whole schema. It stands for the steps that led there in versions before."""
LAST_STEP = "0061_indexes_for_growth"
"""The last of those steps: a database that has it has the schema of `FIRST`."""
CONCURRENTLY = "concurrently"
"""The folder of statements that run before a migration, each outside of a transaction."""
TURN_S = 0.1
_LOCK = 0x6B7A6F6F


def migrate(database_url: str, *, grant_to: str = "", password: str = "") -> tuple[str, ...]:
    """Applies what is missing, and grants. Returns the names of the files applied. Raises
    InvalidInput, and changes nothing, for a database that is older than `FIRST`."""
    with psycopg.connect(database_url, autocommit=True) as connection:
        _take_turn(connection)
        connection.execute(
            "CREATE TABLE IF NOT EXISTS migration (name text PRIMARY KEY,"
            " applied_at timestamptz NOT NULL DEFAULT now())"
        )
        done = {row[0] for row in connection.execute("SELECT name FROM migration")}
        refuse_older("database", done)
        if LAST_STEP in done and FIRST not in done:
            connection.execute("INSERT INTO migration (name) VALUES (%s)", (FIRST,))
            done.add(FIRST)
        missing = [path for path in _known() if path.stem not in done]
        for path in missing:
            apply(connection, path)
        if grant_to:
            grant(connection, grant_to, password)
    return tuple(path.stem for path in missing)


def apply(connection: psycopg.Connection, path: Path) -> None:
    """Applies a migration and records it. What an earlier attempt left half made is made anew."""
    beside = path.parent / CONCURRENTLY / path.name
    if beside.exists():
        _drop_half_made(connection)
        for statement in beside.read_text().strip().removesuffix(";").split(";\n"):
            connection.execute(statement.encode())
    with connection.transaction():
        connection.execute(path.read_bytes())
        connection.execute("INSERT INTO migration (name) VALUES (%s)", (path.stem,))


def _take_turn(connection: psycopg.Connection) -> None:
    """Takes the lock of migrations, or asks for it again and again: whoever waits for it in a
    statement is waited for by those that make an index concurrently, and has the lock."""
    while True:
        taken = connection.execute("SELECT pg_try_advisory_lock(%s)", (_LOCK,)).fetchone()
        if taken == (True,):
            return
        time.sleep(TURN_S)


def _drop_half_made(connection: psycopg.Connection) -> None:
    """Drops indexes that were being made concurrently when their process died."""
    found = connection.execute(
        "SELECT c.relname FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid"
        " WHERE NOT i.indisvalid AND c.relnamespace = 'public'::regnamespace"
    ).fetchall()
    for (name,) in found:
        connection.execute(SQL("DROP INDEX CONCURRENTLY {}").format(Identifier(name)))


def refuse_older(what: str, done: set[str]) -> None:
    """Raises InvalidInput for a database, or what else holds one, that no migration here brings to
    the current schema. `done` are the migrations that it has."""
    if done and not done & {FIRST, LAST_STEP}:
        raise InvalidInput(
            f"the {what} stands at migration {max(done)}, and this version upgrades those from "
            f"{LAST_STEP} on: upgrade it by way of the last version that has the steps between, "
            'as docs/operations.md says under "Upgrade an old database"'
        )


def refuse_newer(what: str, done: set[str]) -> None:
    """Raises InvalidInput for what holds a database with a migration that this version lacks."""
    known = {path.stem for path in _known()}
    if lacking := {name for name in done if name > FIRST} - known:
        raise InvalidInput(
            f"the {what} stands at migration {max(lacking)}, which this version does not have: "
            "use the version that wrote it, or a later one"
        )


def _known() -> list[Path]:
    return sorted(MIGRATIONS.glob("*.sql"))


def main() -> int:
    parser = ArgumentParser(prog="python -m kernelzoo.store.migrate", description=__doc__)
    parser.add_argument(
        "--grant-to",
        metavar="ROLE",
        default="",
        help="the role that gateway and workers connect as; where KERNELZOO_GRANT_PASSWORD is set "
        "it is made, or given that password",
    )
    options = parser.parse_args()
    url = os.environ.get("KERNELZOO_DATABASE_URL")
    if not url:
        print("set KERNELZOO_DATABASE_URL to the database to migrate", file=sys.stderr)
        return 2
    password = os.environ.get("KERNELZOO_GRANT_PASSWORD", "")
    try:
        applied = migrate(url, grant_to=options.grant_to, password=password)
    except InvalidInput as error:
        print(f"migrate: {error}", file=sys.stderr)
        return 2
    for name in applied:
        print(f"applied {name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
