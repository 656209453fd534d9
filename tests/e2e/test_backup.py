"""`kernelzoo backup` and `restore`, as they are typed, beside a stack and without one."""

import shutil
import time
from pathlib import Path

import psycopg
import pytest
from typer.testing import CliRunner, Result

from cli.app import app
from cli.stack.place import Place, take_lock
from cli.stack.postgres import start_postgres, url_of
from cli.stack.supervisor import Stack
from fixtures.postgres import SERVICE, as_service
from kernelzoo.errors import InvalidInput, StackError
from kernelzoo.store.dump import dump
from kernelzoo.store.migrate import MIGRATIONS, migrate


def _typed(*words: str | Path) -> Result:
    result = CliRunner().invoke(app, [str(word) for word in words])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def _workloads(url: str) -> list[str]:
    with psycopg.connect(url) as connection:
        query = "SELECT key FROM workload ORDER BY key"
        return [key for (key,) in connection.execute(query)]


def _serial(url: str) -> int:
    with psycopg.connect(url) as connection:
        row = connection.execute("SELECT serial FROM publication").fetchone()
        assert row is not None
        return int(row[0])


def _execute(url: str, *statements: str) -> None:
    with psycopg.connect(url) as connection:
        for statement in statements:
            connection.execute(statement.encode())


def test_a_backup_of_a_running_stack_is_restored_into_another(stack: Stack, tmp_path: Path) -> None:
    started_s = int(time.time())
    _execute(
        stack.postgres.url,
        "INSERT INTO workload (key, flops) VALUES ('kept', 1)",
        "UPDATE publication SET serial = 1",
        # The other server has no such role.
        "CREATE ROLE elsewhere",
        "ALTER TABLE workload OWNER TO elsewhere",
        "GRANT SELECT ON publication TO elsewhere",
    )
    place, file = stack.place, tmp_path / "zoo.dump"
    told = _typed("backup", file, "--state", place.root)
    assert str(file) in told.stdout
    assert file.stat().st_mode & 0o777 == 0o600
    with pytest.raises(StackError, match="runs already"):
        _typed("restore", file, "--yes", "--state", place.root)

    other = tmp_path / "other"
    assert "restored" in _typed("restore", file, "--yes", "--state", other).stdout
    again = Place.at(other)
    with take_lock(again):
        server = start_postgres(again)
        assert _workloads(server.url) == ["kept"]
        assert _serial(server.url) >= started_s
        assert url_of(again) == server.url
        server.stop()


def test_a_restore_takes_back_what_came_later_and_makes_pages_ask_again(
    database_url: str, tmp_path: Path
) -> None:
    file = tmp_path / "zoo.dump"
    _execute(database_url, "INSERT INTO workload (key, flops) VALUES ('kept', 1)")
    _typed("backup", file, "--database", database_url)
    _execute(
        database_url,
        "INSERT INTO workload (key, flops) VALUES ('later', 1)",
        "CREATE TABLE later_table (key text REFERENCES workload)",
        "CREATE VIEW later_view AS SELECT 1 AS one",
        "CREATE SEQUENCE later_sequence",
        "CREATE FUNCTION later_function() RETURNS integer LANGUAGE sql AS 'SELECT 1'",
        "UPDATE publication SET serial = 1000 + serial",
    )
    before = _serial(database_url)
    _typed("restore", file, "--yes", "--database", database_url, "--grant-to", SERVICE)
    assert _workloads(as_service(database_url)) == ["kept"]
    assert _serial(database_url) > before
    with psycopg.connect(database_url) as connection:
        found = connection.execute(
            "SELECT to_regclass('later_table'), to_regclass('later_view'),"
            " to_regclass('later_sequence'), to_regproc('later_function')"
        ).fetchone()
    assert found == (None, None, None, None)
    assert migrate(database_url) == ()


def test_a_backup_of_an_older_version_is_migrated(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, newest = tmp_path / "zoo.dump", "9999-newer"
    _typed("backup", file, "--database", database_url)
    migrations = shutil.copytree(MIGRATIONS, tmp_path / "migrations")
    (migrations / f"{newest}.sql").write_text("CREATE TABLE newer ();")
    monkeypatch.setattr("kernelzoo.store.migrate.MIGRATIONS", migrations)
    told = _typed("restore", file, "--yes", "--database", database_url).stdout
    assert "applied 1 migration" in told
    with psycopg.connect(database_url) as connection:
        applied = connection.execute("SELECT max(name), to_regclass('newer') FROM migration")
        assert applied.fetchone() == (newest, "newer")


def test_a_restore_that_fails_leaves_everything_as_it_was(
    database_url: str, tmp_path: Path
) -> None:
    file = tmp_path / "zoo.dump"
    _execute(database_url, "INSERT INTO workload (key, flops) VALUES ('kept', 1)")
    _typed("backup", file, "--database", database_url)
    _execute(database_url, "INSERT INTO workload (key, flops) VALUES ('later', 1)")
    broken = tmp_path / "broken.dump"
    broken.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    with pytest.raises(StackError, match="pg_restore failed"):
        _typed("restore", broken, "--yes", "--database", database_url)
    assert _workloads(database_url) == ["kept", "later"]


def test_a_restore_that_fails_half_way_leaves_everything_as_it_was(
    database_url: str, tmp_path: Path
) -> None:
    file = tmp_path / "zoo.dump"
    # What is in no schema of the zoo's stays, so that it cannot be made again.
    _execute(database_url, "CREATE SCHEMA beside", "CREATE TABLE beside.there ()")
    _typed("backup", file, "--database", database_url)
    _execute(database_url, "INSERT INTO workload (key, flops) VALUES ('later', 1)")
    with pytest.raises(StackError, match=r"psql failed: .*beside"):
        _typed("restore", file, "--yes", "--database", database_url)
    assert _workloads(database_url) == ["later"]


def test_a_restore_asks_before_it_replaces_anything(database_url: str, tmp_path: Path) -> None:
    file = tmp_path / "zoo.dump"
    _typed("backup", file, "--database", database_url)
    _execute(database_url, "INSERT INTO workload (key, flops) VALUES ('later', 1)")
    told = CliRunner().invoke(app, ["restore", str(file), "--database", database_url], input="n\n")
    assert told.exit_code == 1
    assert "replaced for good" in told.output
    assert _workloads(database_url) == ["later"]


def test_a_backup_that_fails_leaves_no_file(database_url: str, tmp_path: Path) -> None:
    _execute(database_url, f"REVOKE ALL ON workload FROM {SERVICE}")
    with pytest.raises(StackError, match=r"pg_dump failed: .*permission denied"):
        _typed("backup", tmp_path / "zoo.dump", "--database", as_service(database_url))
    assert list(tmp_path.iterdir()) == []


def test_a_password_is_not_among_the_arguments_which_others_can_list(tmp_path: Path) -> None:
    told = tmp_path / "told"
    program = tmp_path / "pg_dump"
    program.write_text(
        f'#!/bin/sh\nprintf "%s\\n" "$@" > {told}\nprintf %s "$PGPASSWORD" > {told}.env\n'
    )
    program.chmod(0o700)
    dump(tmp_path, "postgresql://someone:secret@127.0.0.1/zoo", tmp_path / "zoo.dump")
    assert "user=someone" in told.read_text()
    assert "secret" not in told.read_text()
    assert Path(f"{told}.env").read_text() == "secret"


@pytest.mark.parametrize(
    ("migrations", "said"),
    [
        (("0001_first_schema", "0050_waiting_tallies"), "stands at migration 0050_waiting_tallies"),
        (
            ("0061_indexes_for_growth", "0061_schema", "9999_later"),
            "9999_later, which this version does not have: use the version that wrote it",
        ),
        ((), "holds no zoo"),
    ],
)
def test_a_backup_of_another_version_is_refused_before_anything_is_replaced(
    database_url: str, tmp_path: Path, migrations: tuple[str, ...], said: str
) -> None:
    file = tmp_path / "zoo.dump"
    _execute(
        database_url,
        "CREATE TABLE done AS SELECT * FROM migration",
        "DELETE FROM migration",
        "INSERT INTO workload (key, flops) VALUES ('other', 1)",
    )
    with psycopg.connect(database_url) as connection:
        for name in migrations:
            connection.execute("INSERT INTO migration (name) VALUES (%s)", (name,))
    _typed("backup", file, "--database", database_url)
    _execute(
        database_url,
        "DELETE FROM migration",
        "INSERT INTO migration SELECT * FROM done",
        "UPDATE workload SET key = 'kept'",
    )
    with pytest.raises(InvalidInput, match=said):
        _typed("restore", file, "--yes", "--database", database_url)
    assert _workloads(database_url) == ["kept"]


def test_a_backup_overwrites_nothing_and_says_where_there_is_no_zoo(tmp_path: Path) -> None:
    (tmp_path / "there").touch()
    with pytest.raises(InvalidInput, match="is there already"):
        _typed("backup", tmp_path / "there", "--state", tmp_path)
    with pytest.raises(StackError, match="no zoo is in"):
        _typed("backup", tmp_path / "zoo.dump", "--state", tmp_path / "empty")
