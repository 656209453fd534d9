"""Migrations run as the owner of the schema; gateway and workers as a role that changes none of it.

Every test of this folder talks to a gateway, and runs its workers, as that role: `db`.
"""

import os
import subprocess
import sys
from collections.abc import Iterator

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from fixtures.postgres import SERVICE, Postgres, as_service
from kernelzoo import jobs
from kernelzoo.errors import InvalidInput
from kernelzoo.settings import Settings, WorkerSettings
from kernelzoo.store.migrate import migrate
from tests.database.conftest import Connection
from workers import tasks

DATABASE = "kernelzoo_roles"
OTHER = "kernelzoo_other_service"


@pytest.mark.parametrize(
    "statement",
    [
        "DROP TABLE measurement",
        "DROP TABLE migration",
        "ALTER TABLE workload ADD COLUMN more text",
        "ALTER TABLE identity DISABLE TRIGGER ALL",
        "TRUNCATE ballot CASCADE",
        "CREATE TABLE mine (id int)",
        "CREATE FUNCTION public.mine() RETURNS int LANGUAGE sql AS 'SELECT 1'",
        "ALTER FUNCTION operation_of(text) VOLATILE",
        "CREATE INDEX ON measurement (id)",
        "DROP FUNCTION is_trusted",
        "INSERT INTO migration (name) VALUES ('9999_mine')",
        "DELETE FROM migration",
        "CREATE ROLE mine",
        "ALTER TABLE zoo_entry OWNER TO CURRENT_USER",
    ],
)
def test_gateway_and_workers_change_no_schema(db: Connection, statement: str) -> None:
    assert db.execute("SELECT current_user").fetchone() == (SERVICE,)
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        db.execute(statement)


def test_they_read_and_write_every_table_and_call_every_function(db: Connection) -> None:
    lacking = db.execute(
        "SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace"
        " AND relkind IN ('r', 'p', 'v', 'm') AND relname <> 'migration'"
        " AND NOT has_table_privilege(oid, 'SELECT, INSERT, UPDATE, DELETE')"
        " UNION ALL SELECT proname FROM pg_proc WHERE pronamespace = 'public'::regnamespace"
        " AND NOT has_function_privilege(oid, 'EXECUTE')"
        " UNION ALL SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace"
        " AND CASE relkind WHEN 'S' THEN NOT has_sequence_privilege(oid, 'USAGE') ELSE false END"
    ).fetchall()
    assert lacking == []


def test_a_statement_of_a_worker_ends_before_its_task_is_killed(
    settings: Settings, owner: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert min(jobs.TASK_LIMIT_S, jobs.TRAINING_LIMIT_S) > tasks.STATEMENT_S
    monkeypatch.setattr(tasks, "STATEMENT_S", 0.1)
    celery = jobs.broker(settings.redis_url)
    # A database of another name has connections of its own in this process.
    url = make_conninfo(settings.database_url, application_name="limited")
    tasks.register(celery, WorkerSettings(database_url=url, redis_url=settings.redis_url))
    with owner.transaction():
        # Whoever reads the table waits for this, as for a scan that is too long.
        owner.execute("LOCK TABLE coverage IN ACCESS EXCLUSIVE MODE")
        ended = celery.tasks["take_census"].apply()
    assert isinstance(ended.result, psycopg.errors.QueryCanceled)


@pytest.fixture
def empty(postgres: Postgres) -> Iterator[str]:
    """A database without a table. Roles belong to the whole server."""
    with psycopg.connect(postgres.url("postgres"), autocommit=True) as admin:
        admin.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(DATABASE)))
        yield postgres.url(DATABASE)
        admin.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(DATABASE)))
        admin.execute(sql.SQL("DROP ROLE IF EXISTS {}").format(sql.Identifier(OTHER)))


def run(url: str, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "kernelzoo.store.migrate", *words],
        env={**os.environ, "KERNELZOO_DATABASE_URL": url, **variables},
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_role_is_made_granted_what_later_migrations_make_and_given_its_password(
    empty: str,
) -> None:
    made = run(empty, "--grant-to", OTHER, KERNELZOO_GRANT_PASSWORD="it's a \\ password")
    assert made.returncode == 0, made.stderr
    assert "applied 0061_schema" in made.stdout
    assert "password" not in made.stdout + made.stderr
    with psycopg.connect(as_service(empty).replace(SERVICE, OTHER)) as service:
        assert service.execute("SHOW statement_timeout").fetchone() == ("1min",)
    with psycopg.connect(empty, autocommit=True) as owner:
        owner.execute("CREATE TABLE later (id bigint GENERATED ALWAYS AS IDENTITY, name text)")
        hashed = owner.execute(
            "SELECT rolpassword FROM pg_authid WHERE rolname = %s", (OTHER,)
        ).fetchone()
        service = psycopg.connect(as_service(empty).replace(SERVICE, OTHER), autocommit=True)
        with service, pytest.raises(psycopg.errors.InsufficientPrivilege):
            service.execute("INSERT INTO later (name) VALUES ('x')")
        again = run(empty, "--grant-to", OTHER, KERNELZOO_GRANT_PASSWORD="another")
        assert (again.returncode, again.stdout) == (0, "")
        changed = owner.execute(
            "SELECT rolpassword FROM pg_authid WHERE rolname = %s", (OTHER,)
        ).fetchone()
        assert hashed != changed
    with psycopg.connect(as_service(empty).replace(SERVICE, OTHER)) as service:
        service.execute("INSERT INTO later (name) VALUES ('x')")


def test_without_a_role_one_address_serves_all(empty: str) -> None:
    assert run(empty).returncode == 0
    with psycopg.connect(empty) as connection:
        assert connection.execute("SELECT count(*) FROM workload").fetchone() == (0,)


def test_a_missing_role_and_one_that_no_grant_would_hold_are_refused(empty: str) -> None:
    said = run(empty, "--grant-to", OTHER)
    assert said.returncode == 2
    assert f"there is no role {OTHER}; make it with CREATE ROLE" in said.stderr
    with pytest.raises(InvalidInput, match="is a superuser"):
        migrate(empty, grant_to="postgres")
