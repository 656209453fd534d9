"""Programs that the gateway registers and reads."""

from collections.abc import Iterable, Mapping
from typing import Any

from psycopg import AsyncConnection

from kernelzoo.domain.operators.parsing import parsed
from kernelzoo.domain.workload import (
    ProgramWorkload,
    Workload,
    WorkloadKey,
    is_program,
    program_name,
    resolved,
)
from kernelzoo.errors import InvalidInput
from kernelzoo.store import programs
from kernelzoo.store.asynchronous import execute, fetch_all

MOST_KEPT = 4096
"""A network has up to 300 programs, and a parsed one takes 10 to 50 kB."""


class Programs:
    """The programs that were read lately. Strangers name some: that which was asked for longest ago
    goes first."""

    def __init__(self) -> None:
        self._kept: dict[str, ProgramWorkload] = {}

    async def workloads(
        self, db: AsyncConnection[Any], keys: Iterable[str]
    ) -> dict[WorkloadKey, Workload]:
        """Raises InvalidInput for a key that is none, and UnknownProgram for a program that is not
        stored."""
        every = list(dict.fromkeys(keys))
        named = [key for key in every if is_program(key)]
        known = {key: kept for key in named if (kept := self._kept.pop(key, None)) is not None}
        if unread := [key for key in named if key not in known]:
            known |= await _read_stored(db, unread)
        # What was not evaluated yet is read again.
        self._kept |= {key: each for key, each in known.items() if each.roundings is not None}
        while len(self._kept) > MOST_KEPT:
            del self._kept[next(iter(self._kept))]
        return resolved(every, known)


async def registered(
    db: AsyncConnection[Any], keys: Iterable[str], sent: Iterable[ProgramWorkload] = ()
) -> dict[WorkloadKey, Workload]:
    """Returns workloads, before rows name their keys: a program among them that is kept may have
    been removed. `sent` are about to be registered. Raises as `Programs.workloads`."""
    every, known = list(keys), {str(each.key): each for each in sent}
    if named := [key for key in every if is_program(key) and key not in known]:
        known |= await _read_stored(db, named)
    return resolved(every, known)


async def _read_stored(db: AsyncConnection[Any], keys: list[str]) -> dict[str, ProgramWorkload]:
    rows = await fetch_all(db, programs.texts(keys))
    return {row.key: row.to_workload() for row in rows}


async def register(db: AsyncConnection[Any], workloads: Iterable[ProgramWorkload]) -> None:
    for workload in workloads:
        await execute(db, programs.add(workload))


def read(texts: Mapping[str, str]) -> tuple[ProgramWorkload, ...]:
    """Reads programs by key. Raises InvalidInput for a text that is none, or of another key."""
    return tuple(_read(key, text) for key, text in texts.items())


def _read(key: str, text: str) -> ProgramWorkload:
    if not is_program(key):
        raise InvalidInput(f"{key[:80]!r} is no key of a program; leave it out of programs")
    name, _ = program_name(key)
    made = Workload.of_program(name, parsed(text))
    if made.key != key:
        raise InvalidInput(f"the text of {key} is that of {made.key}; send each under its own key")
    return made
