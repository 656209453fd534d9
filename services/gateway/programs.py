"""Programs that the gateway registers and learns."""

from collections.abc import Iterable, Mapping
from typing import Any

from psycopg import AsyncConnection

from kernelzoo.domain.known_programs import UnknownProgram
from kernelzoo.domain.operators.parsing import parsed
from kernelzoo.domain.workload import ProgramWorkload, Workload, is_program
from kernelzoo.errors import InvalidInput
from kernelzoo.store import programs
from kernelzoo.store.asynchronous import execute, fetch_all


async def learn(db: AsyncConnection[Any], keys: Iterable[str]) -> None:
    """Before workloads of these keys are read: asks for the programs that are not known here."""
    if asked := programs.unknown(keys):
        programs.note(await fetch_all(db, programs.texts(asked)))


async def require(db: AsyncConnection[Any], keys: Iterable[str]) -> None:
    """Before rows name these keys: as `learn`, but every program among them must be registered; a
    process may know one that was only sent. Raises UnknownProgram."""
    asked = [key for key in keys if is_program(key)]
    if not asked:
        return
    rows = await fetch_all(db, programs.texts(asked))
    programs.note(rows)
    for key in asked:
        if key not in {row.key for row in rows}:
            raise UnknownProgram.of(key)


async def register(db: AsyncConnection[Any], workloads: Iterable[ProgramWorkload]) -> None:
    for workload in workloads:
        await execute(db, programs.add(workload))


def read(texts: Mapping[str, str]) -> tuple[ProgramWorkload, ...]:
    """Programs by key. Raises InvalidInput for a text that is none, or of another key."""
    return tuple(_read(key, text) for key, text in texts.items())


def _read(key: str, text: str) -> ProgramWorkload:
    named = Workload.parse(key)
    if not isinstance(named, ProgramWorkload):
        raise InvalidInput(f"{key[:80]!r} is no key of a program; leave it out of programs")
    made = Workload.of_program(named.name, parsed(text))
    if made.key != key:
        raise InvalidInput(f"the text of {key} is that of {made.key}; send each under its own key")
    return made
