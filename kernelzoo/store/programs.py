"""The texts of programs, which every other row names by key alone.

A process learns what it needs before it reads a workload: `learn` asks for the programs among some
keys that it does not know wholly, and for nothing where it knows them all.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from kernelzoo.domain.known_programs import KnownProgram, is_evaluated
from kernelzoo.domain.known_programs import learn as learn_one
from kernelzoo.domain.operators.parsing import parsed
from kernelzoo.domain.workload import ProgramWorkload, is_program
from kernelzoo.store.blocking import Database, fetch_all
from kernelzoo.store.query import Query, Statement


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramRow:
    key: str
    text: str
    roundings: float | None


def add(workload: ProgramWorkload) -> Statement:
    """Adding it again changes nothing."""
    return Statement(
        sql="""
            INSERT INTO program (key, text) VALUES (%(key)s, %(text)s)
            ON CONFLICT (key) DO NOTHING
        """,
        parameters={"key": workload.key, "text": str(workload.program)},
    )


def evaluated(key: str, roundings: float) -> Statement:
    return Statement(
        sql="UPDATE program SET roundings = %(roundings)s WHERE key = %(key)s",
        parameters={"key": key, "roundings": roundings},
    )


def remove_unused(days: int) -> Statement:
    """Removes programs that were registered so long ago and are no workload. Nobody may register
    workloads meanwhile (`tuning.lock_workloads`).
    """
    return Statement(
        sql="""
            DELETE FROM program p
            WHERE p.registered_at < now() - make_interval(days => %(days)s)
              AND NOT EXISTS (SELECT FROM workload w WHERE w.key = p.key)
        """,
        parameters={"days": days},
    )


def texts(keys: list[str]) -> Query[ProgramRow]:
    return Query(
        sql="SELECT key, text, roundings FROM program WHERE key = ANY(%(keys)s)",
        parameters={"keys": keys},
        row=ProgramRow,
    )


def unknown(keys: Iterable[str]) -> list[str]:
    """The programs among them about which something is left to learn."""
    return [key for key in keys if is_program(key) and not is_evaluated(key)]


def note(rows: Iterable[ProgramRow]) -> None:
    for row in rows:
        learn_one(row.key, KnownProgram(program=parsed(row.text), roundings=row.roundings))


def learn(db: Database, keys: Iterable[str]) -> None:
    if asked := unknown(keys):
        note(fetch_all(db, texts(asked)))
