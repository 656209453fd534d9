"""The texts of programs, which every other row names by key alone.

`workloads` is the door from keys to what they compute: it reads the programs among them.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from kernelzoo.domain.operators.parsing import parsed
from kernelzoo.domain.workload import ProgramWorkload, Workload, WorkloadKey, is_program, resolved
from kernelzoo.store.blocking import Database, fetch_all
from kernelzoo.store.query import Query, Statement


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramRow:
    key: str
    text: str
    roundings: float | None

    def to_workload(self) -> ProgramWorkload:
        return ProgramWorkload.stored(self.key, parsed(self.text), self.roundings)


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


def workloads(db: Database, keys: Iterable[str]) -> dict[WorkloadKey, Workload]:
    """Raises InvalidInput for a key that is none, and UnknownProgram for a program that is not
    stored."""
    every = list(dict.fromkeys(keys))
    named = [key for key in every if is_program(key)]
    rows = fetch_all(db, texts(named)) if named else []
    return resolved(every, {row.key: row.to_workload() for row in rows})
