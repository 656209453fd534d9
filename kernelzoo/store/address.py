"""Splits the address of a database for programs that take it in parts."""

from dataclasses import dataclass

from psycopg.conninfo import conninfo_to_dict


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """`host` is a path where the database listens on a socket in that folder. None: not told."""

    host: str | None
    user: str | None
    name: str | None


def address_of(url: str) -> Address:
    told = conninfo_to_dict(url)
    host, user, name = (_text(told.get(part)) for part in ("host", "user", "dbname"))
    return Address(host=host, user=user, name=name)


def _text(value: str | int | None) -> str | None:
    return None if value is None else str(value)
