"""Fixtures that several kinds of tests share."""

import signal
from collections.abc import Iterator

import psycopg
import pytest
from hypothesis import settings
from psycopg import sql

from fixtures.postgres import Postgres
from tests.scratch import keep_in_memory

keep_in_memory()

# `make test` draws a few dozen examples and `make test-all` a hundred; `--hypothesis-profile=long`
# looks for what nobody has found yet.
settings.register_profile("quick", max_examples=30)
settings.register_profile("thorough", max_examples=100)
settings.register_profile("long", max_examples=1500)
settings.load_profile("quick")

# A shell without job control starts what runs in the background deaf to Ctrl-C, and so would all be
# that tests start and end with it.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Postgres]:
    """A real PostgreSQL server of this test run's own, with a migrated template database."""
    server = Postgres.start(tmp_path_factory.mktemp("postgres"))
    yield server
    server.stop()


@pytest.fixture(scope="session", autouse=True)
def _postgres_before_stacks(request: pytest.FixtureRequest) -> None:
    """A stack makes this process the parent of every orphan, and ends all of its descendants when
    it stops. A server that is started before the first stack belongs to nobody.
    """
    if any("postgres" in getattr(item, "fixturenames", ()) for item in request.session.items):
        request.getfixturevalue("postgres")


@pytest.fixture
def database_url(postgres: Postgres) -> Iterator[str]:
    """A fresh database with the current schema, dropped after the test."""
    name = postgres.create_database()
    yield postgres.url(name)
    with psycopg.connect(postgres.url("postgres"), autocommit=True) as connection:
        connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))
