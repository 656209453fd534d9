"""`kernelzoo backup` and `restore`: the database as one file, by the PostgreSQL of the wheel, whose
pg_dump reads the database of `kernelzoo up`. A distribution's own may be too old for it.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from cli.options import STATE, StateOption
from cli.stack.place import Place, read_record, take_lock
from cli.stack.postgres import PROGRAMS, start_postgres, url_of
from cli.terminal import megabytes, note, out
from kernelzoo.errors import InvalidInput, StackError
from kernelzoo.store.dump import dump, migrations_in, replace, size_bytes
from kernelzoo.store.migrate import migrate, refuse_newer, refuse_older

DatabaseOption = Annotated[
    str | None,
    typer.Option(
        "--database",
        envvar="KERNELZOO_DATABASE_URL",
        help="Address of a database elsewhere, as its owner: postgresql://….",
        show_envvar=True,
    ),
]


def backup(
    file: Annotated[
        Path | None, typer.Argument(help="Where to. Nothing: kernelzoo-DATE.dump, here.")
    ] = None,
    database: DatabaseOption = None,
    state: StateOption = STATE,
) -> None:
    """Write the zoo's database to a file, also while the stack runs."""
    place = Place.at(state)
    target = file or Path(f"kernelzoo-{datetime.now(UTC):%Y-%m-%d-%H%M%S}.dump")
    if target.exists():
        raise InvalidInput(f"{target} is there already; name another file")
    with _database(place, database) as url:
        note(f"dumping {megabytes(size_bytes(url))} of rows and indexes")
        draft = target.with_name(f"{target.name}.draft")
        os.close(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600))
        try:
            dump(PROGRAMS, url, draft)
            draft.rename(target)
        finally:
            draft.unlink(missing_ok=True)
    out.print(f"{target}: {megabytes(target.stat().st_size)}", soft_wrap=True)
    if database is None:
        note(f"keep what else makes the zoo beside it: {_beside(place)}")


def restore(
    file: Annotated[Path, typer.Argument(help="What `kernelzoo backup` wrote.", exists=True)],
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    database: DatabaseOption = None,
    grant_to: Annotated[
        str, typer.Option("--grant-to", help="The role that gateway and workers connect as.")
    ] = "",
    state: StateOption = STATE,
) -> None:
    """Replace the zoo's database by that of a file, while no gateway and no worker runs.

    All or nothing: where it fails, the database is as before. Migrations that came after the
    backup are applied; a backup that is too old for them, or of a later version, is refused.
    """
    done = migrations_in(PROGRAMS, file)
    if not done:
        raise InvalidInput(f"{file} holds no zoo: name a file that `kernelzoo backup` wrote")
    refuse_older("backup", done)
    refuse_newer("backup", done)
    with _database(Place.at(state), database, alone=True) as url:
        if not yes:
            note(f"replaced for good: {megabytes(size_bytes(url))} of rows and indexes")
            typer.confirm("Replace them?", abort=True, err=True)
        replace(PROGRAMS, url, file)
        applied = migrate(url, grant_to=grant_to)
    out.print(f"restored {file}, and applied {len(applied)} migration(s) since", soft_wrap=True)


@contextmanager
def _database(place: Place, url: str | None, *, alone: bool = False) -> Iterator[str]:
    """The address of the database: `url`, or that of the stack of `place`, whose PostgreSQL is
    started where no stack runs. With `alone` a stack that runs is refused, by StackError.
    """
    if url is not None:
        yield url
        return
    record = read_record(place)
    if not alone and record is not None and record.supervisor.process() is not None:
        yield url_of(place)
        return
    if not alone and not (place.postgres / "PG_VERSION").exists():
        raise StackError(f"no zoo is in {place.root}; name its directory with --state DIR")
    place.make()
    with take_lock(place):
        postgres = start_postgres(place)
        try:
            yield postgres.url
        finally:
            postgres.stop()


def _beside(place: Place) -> str:
    models = f"{place.models} (files of models), " if place.models.exists() else ""
    return f"{models}{place.keys} (secrets)"
