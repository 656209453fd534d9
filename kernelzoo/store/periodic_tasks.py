"""Records when each task of the clock last came to its end, whatever stopped it since."""

from dataclasses import dataclass

from kernelzoo.store.query import Query, Statement


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskAgeRow:
    task: str
    age_s: float


def ended(task: str) -> Statement:
    """Say this as the last of what the task does."""
    return Statement(
        sql="""
            INSERT INTO periodic_task (task) VALUES (%(task)s)
            ON CONFLICT (task) DO UPDATE SET ended_at = now()
        """,
        parameters={"task": task},
    )


def ages() -> Query[TaskAgeRow]:
    return Query(
        sql="""
            SELECT task, greatest(0, extract(epoch FROM now() - ended_at))::float8 AS age_s
            FROM periodic_task
        """,
        row=TaskAgeRow,
    )
