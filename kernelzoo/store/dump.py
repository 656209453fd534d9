"""The whole database as a file, by PostgreSQL's own programs."""

import os
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from kernelzoo.errors import StackError

# Everything in the schema, which itself stays with its default privileges. All names are read
# before the first is dropped: others go with it, as sequences do with their tables.
EMPTY = """
SET client_min_messages = warning;
DO $$
DECLARE statement text;
BEGIN
    IF to_regclass('publication') IS NOT NULL THEN
        PERFORM set_config('kernelzoo.serial', serial::text, false) FROM publication;
    END IF;
    FOREACH statement IN ARRAY ARRAY(
        SELECT format('DROP %s IF EXISTS %s CASCADE', kinds.name, class.oid::regclass)
        FROM pg_class AS class
        JOIN (VALUES (1, 'r', 'TABLE'), (2, 'v', 'VIEW'), (3, 'S', 'SEQUENCE'))
            AS kinds (place, kind, name) ON class.relkind::text = kinds.kind
        WHERE class.relnamespace = 'public'::regnamespace
        ORDER BY kinds.place
    ) || ARRAY(
        SELECT format('DROP FUNCTION IF EXISTS %s CASCADE', oid::regprocedure)
        FROM pg_proc WHERE pronamespace = 'public'::regnamespace AND prokind = 'f'
    ) LOOP
        EXECUTE statement;
    END LOOP;
END
$$;
"""
# Pages refuse manifests of before those that they saw.
LATER = """
UPDATE public.publication SET serial = greatest(
    serial + 1,
    nullif(current_setting('kernelzoo.serial', true), '')::bigint + 1,
    extract(epoch FROM clock_timestamp())::bigint);
"""


def dump(programs: Path, database_url: str, file: Path) -> None:
    """Writes a consistent state of the database, while others use it. `programs` is the folder of
    pg_dump, which must not be older than the server. Raises StackError."""
    _run(programs / "pg_dump", "--format", "custom", "--file", file, url=database_url)


def replace(programs: Path, database_url: str, file: Path) -> None:
    """Everything in the database by what a dump holds, in one transaction, without its owners and
    rights. Raises StackError, also for a dump that is cut short: then the database is as before."""
    with TemporaryDirectory() as name:
        folder, without = Path(name), ("--no-owner", "--no-privileges")
        restored = folder / "restored.sql"
        _run(programs / "pg_restore", *without, "--file", restored, file)
        (folder / "empty.sql").write_text(EMPTY)
        (folder / "later.sql").write_text(LATER)
        steps = (folder / "empty.sql", restored, folder / "later.sql")
        options = ("--no-psqlrc", "--quiet", "--single-transaction", "--set", "ON_ERROR_STOP=1")
        files = (word for step in steps for word in ("--file", step))
        _run(programs / "psql", *options, *files, url=database_url)


def migrations_in(programs: Path, file: Path) -> set[str]:
    """The migrations that a dump's database has; none of a dump of another database. Raises
    StackError for what is no dump."""
    with TemporaryDirectory() as name:
        rows = Path(name) / "migration.sql"
        options = ("--data-only", "--schema", "public", "--table", "migration")
        _run(programs / "pg_restore", *options, "--file", rows, file)
        _, _, copied = rows.read_text().partition("COPY public.migration ")
    _, *lines = copied.partition("\n\\.\n")[0].split("\n")
    return {line.partition("\t")[0] for line in lines}


def size_bytes(database_url: str) -> int:
    """The size of rows and indexes. Raises StackError where the database does not answer."""
    try:
        with psycopg.connect(database_url) as connection:
            row = connection.execute("SELECT pg_database_size(current_database())").fetchone()
    except psycopg.OperationalError as error:
        raise StackError(f"the database does not answer: {error}") from error
    assert row is not None
    return int(row[0])


def _run(program: Path, *arguments: str | Path, url: str | None = None) -> None:
    """A password is not among the arguments, which others can list."""
    address: dict[str, Any] = conninfo_to_dict(url or "")
    password = address.pop("password", None)
    where = ("--dbname", make_conninfo(**address)) if url is not None else ()
    env = {**os.environ, **({"PGPASSWORD": password} if password else {})}
    command = (program, *where, *arguments)
    done = subprocess.run(
        command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False
    )
    if done.returncode != 0:
        raise StackError(f"{program.name} failed: {done.stderr.strip()}")
