"""The role that gateway and workers connect as: it reads and writes rows, and changes no schema;
and the one that Grafana reads with.

Migrations run as the owner of the schema, who grants it what it needs. LISTEN, NOTIFY and advisory
locks are everybody's, and so are functions unless they are taken away; they run with the rights of
whoever calls them.
"""

from typing import LiteralString

import psycopg
from psycopg.sql import SQL, Identifier, Literal

from kernelzoo.errors import InvalidInput

GRANTS: tuple[LiteralString, ...] = (
    "REVOKE CREATE ON SCHEMA public FROM PUBLIC",
    "REVOKE ALL ON ALL TABLES IN SCHEMA public FROM {role}",
    "GRANT USAGE ON SCHEMA public TO {role}",
    "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO {role}",
    "GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO {role}",
    "GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA public TO {role}",
    "REVOKE INSERT, UPDATE, DELETE ON migration FROM {role}",
)
STATEMENT_TIMEOUT = "60s"
"""For connections that set no limit of their own: gateways and workers do. Roles that were made
elsewhere keep what their maker set."""

READER = "kernelzoo_reader"
"""The role that Grafana reads with; docker/postgres/reader.sh makes it for the images."""
READING: tuple[LiteralString, ...] = (
    "ALTER ROLE {role} SET default_transaction_read_only = on",
    "ALTER ROLE {role} SET statement_timeout = '10s'",
    "GRANT USAGE ON SCHEMA public TO {role}",
    "GRANT SELECT ON ALL TABLES IN SCHEMA public TO {role}",
)


def grant(connection: psycopg.Connection, role: str, password: str = "") -> None:
    """Gives `role` exactly what the service needs of the tables that there are now.

    With a password a missing role is made, and one that is there gets the password. Raises
    InvalidInput for a role that is missing, or that owns tables and could drop them all the same.
    """
    name = Identifier(role)
    found = connection.execute(
        "SELECT rolsuper, pg_has_role(oid, current_user, 'MEMBER') AS is_owner"
        " FROM pg_roles WHERE rolname = %s",
        (role,),
    ).fetchone()
    if found is not None and any(found):
        raise InvalidInput(
            f"the role {role} is a superuser or has the rights of the role that migrates, so that "
            "no grant would hold it; name a role of its own, which gateway and workers connect as"
        )
    with connection.transaction():
        if password:
            verb = SQL("ALTER" if found else "CREATE")
            statement = SQL("{} ROLE {} LOGIN PASSWORD {}")
            connection.execute(statement.format(verb, name, Literal(password)))
            limit = SQL("ALTER ROLE {} SET statement_timeout = {}")
            connection.execute(limit.format(name, Literal(STATEMENT_TIMEOUT)))
        elif found is None:
            raise InvalidInput(
                f"there is no role {role}; make it with CREATE ROLE {role} LOGIN PASSWORD '…', or "
                "set KERNELZOO_GRANT_PASSWORD and migrate as a role that may make others"
            )
        for each in GRANTS:
            connection.execute(SQL(each).format(role=name))


def make_reader(connection: psycopg.Connection) -> None:
    """Makes `READER`, or grants it what there is now. It has no password: the server decides by its
    own rules whether it lets it in, as one does that listens on a socket of its owner alone.
    """
    name = Identifier(READER)
    found = connection.execute("SELECT FROM pg_roles WHERE rolname = %s", (READER,)).fetchone()
    with connection.transaction():
        if found is None:
            connection.execute(SQL("CREATE ROLE {} LOGIN").format(name))
        for each in READING:
            connection.execute(SQL(each).format(role=name))
