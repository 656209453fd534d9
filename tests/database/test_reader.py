"""docker/postgres/reader.sh, which PostgreSQL's image runs before the first migration."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psutil
import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from fixtures.postgres import Postgres
from kernelzoo.store.migrate import migrate
from kernelzoo.store.roles import READER, make_reader

SCRIPT = Path(__file__).parents[2] / "docker" / "postgres" / "reader.sh"
DATABASE = "kernelzoo_read"
PASSWORD = "it's a \\ password"


@pytest.fixture
def read_database(postgres: Postgres) -> Iterator[str]:
    """An empty database of its own. The role that the script makes belongs to the whole server."""
    admin = psycopg.connect(postgres.url("postgres"), autocommit=True)
    admin.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(DATABASE)))
    yield postgres.url(DATABASE)
    admin.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(DATABASE)))
    admin.execute("DROP ROLE kernelzoo_reader")
    admin.close()


def _run_script(postgres: Postgres) -> None:
    pid = postgres.server.get_pid()
    assert pid is not None
    programs = Path(psutil.Process(pid).exe()).parent
    environment = {
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        "PGHOST": str(conninfo_to_dict(postgres.url(DATABASE))["host"]),
        "POSTGRES_USER": "postgres",
        "POSTGRES_DB": DATABASE,
        "POSTGRES_READER_PASSWORD": PASSWORD,
    }
    subprocess.run([SCRIPT], env=environment, check=True, capture_output=True)


def test_the_reader_of_a_stack_without_images_is_held_to_the_same(
    postgres: Postgres, read_database: str
) -> None:
    _run_script(postgres)
    with psycopg.connect(read_database, autocommit=True) as owner:
        configured = "SELECT rolconfig FROM pg_roles WHERE rolname = %s"
        of_script = owner.execute(configured, (READER,)).fetchone()
        owner.execute("DROP OWNED BY kernelzoo_reader; DROP ROLE kernelzoo_reader")
        migrate(read_database)
        for _ in range(2):
            make_reader(owner)
        assert owner.execute(configured, (READER,)).fetchone() == of_script
    reader = make_conninfo(read_database, user=READER)
    with psycopg.connect(reader, autocommit=True) as connection:
        assert connection.execute("SHOW statement_timeout").fetchone() == ("10s",)
        assert connection.execute("SELECT count(*) FROM zoo_entry").fetchone() == (0,)
        with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
            connection.execute("DELETE FROM zoo_entry")


def test_the_reader_reads_what_migrations_make_later_and_writes_nothing(
    postgres: Postgres, read_database: str
) -> None:
    _run_script(postgres)
    migrate(read_database)
    reader = make_conninfo(read_database, user="kernelzoo_reader", password=PASSWORD)
    with psycopg.connect(reader, autocommit=True) as connection:
        assert connection.execute("SELECT count(*) FROM zoo_entry").fetchone() == (0,)
        with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
            connection.execute("DELETE FROM zoo_entry")
        connection.execute("SET default_transaction_read_only = off")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute("DELETE FROM zoo_entry")
