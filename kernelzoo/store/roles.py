"""The role that gateway and workers connect as: it reads and writes rows, and changes no schema.

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
        elif found is None:
            raise InvalidInput(
                f"there is no role {role}; make it with CREATE ROLE {role} LOGIN PASSWORD '…', or "
                "set KERNELZOO_GRANT_PASSWORD and migrate as a role that may make others"
            )
        for each in GRANTS:
            connection.execute(SQL(each).format(role=name))
