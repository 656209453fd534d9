"""Keeps what files of other tuners claim: it seeds the order of evaluation, and is never a vote."""

from dataclasses import dataclass

from kernelzoo.store.query import Query, Statement


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimRow:
    candidate_id: str
    relative_time: float


def claim(source: str, candidate_id: str, device: str, relative_time: float) -> Statement:
    """Replaces what the source claimed before. Touches no row for a candidate that is unknown."""
    return Statement(
        sql="""
            INSERT INTO outside_evidence (source, candidate_id, device, relative_time)
            SELECT %(source)s, candidate_id, %(device)s, %(relative_time)s
            FROM candidate WHERE candidate_id = %(candidate)s
            ON CONFLICT (source, candidate_id, device) DO UPDATE SET
                relative_time = EXCLUDED.relative_time, imported_at = now()
        """,
        parameters={
            "source": source,
            "candidate": candidate_id,
            "device": device,
            "relative_time": relative_time,
        },
    )


def forget_orders(candidate_ids: list[str]) -> Statement:
    """Orders of the jobs of these candidates are made again."""
    return Statement(
        sql="""
            DELETE FROM evaluation_order WHERE job_id IN (
                SELECT job_id FROM space_point WHERE candidate_id = ANY (%(candidates)s))
        """,
        parameters={"candidates": candidate_ids},
    )


def claims(job_id: int) -> Query[ClaimRow]:
    """Reads what outside sources claim of a job's candidates: of each the fastest of its claims."""
    return Query(
        sql="""
            SELECT e.candidate_id, min(e.relative_time) AS relative_time
            FROM outside_evidence e JOIN space_point p ON p.candidate_id = e.candidate_id
            WHERE p.job_id = %(job_id)s GROUP BY e.candidate_id
        """,
        parameters={"job_id": job_id},
        row=ClaimRow,
    )
