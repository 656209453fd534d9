"""Measurements as reported, and what the server's recomputation says of them."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from uuid import UUID

import msgspec

from kernelzoo.domain.candidate import Setting
from kernelzoo.domain.device import DeviceClass
from kernelzoo.domain.measurement import Measurement, Verdict
from kernelzoo.store.candidates import CandidateIdRow
from kernelzoo.store.query import Query, Statement


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportRow:
    """A report ended so; see `accept_report` of the schema."""

    fault: str | None
    named: str | None
    expired_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingRow:
    candidate_id: str
    outcome: str
    sampled_entries: list[float]
    samples_ns: list[float]
    reference_ns: list[float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """The verdict on a measurement. An empty `detail` leaves what the agent said."""

    candidate_id: str
    verdict: Verdict
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedRow:
    """`identities` have reported the candidate, failures too, and were not found wrong; where
    enough have, there may be more."""

    candidate_id: str
    identities: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedRow:
    samples_ns: list[float]
    reference_ns: list[float]


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseId:
    lease_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptRow:
    """`retries`: 0 at the first attempt to judge a report."""

    retries: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RankedRow:
    candidate_id: str
    relative_time: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialRow:
    """A device class found this of a candidate: `times_ns` are the identities' best samples, and
    `relative_times` their best over the reference, both ascending.
    """

    device_class: str
    candidate_id: str
    sha256: str
    config: dict[str, Setting]
    requires: list[str]
    outcome: str
    times_ns: list[float]
    relative_times: list[float]
    compile_ns: int
    measured_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuringClassRow:
    """`total` counts classes without the limit."""

    device_class: str
    total: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CostRow:
    """An identity found a kernel to cost this: the medians of what precedes warm runs, and its best
    time of one.
    """

    identity_id: UUID
    candidate_id: str
    compile_ns: float
    optimise_ns: float
    pack_ns: float
    first_run_ns: float
    run_ns: float


def costs(
    workload_key: str, device_class: DeviceClass, identities: Sequence[str]
) -> Query[CostRow]:
    """Costs of kernels that are not denied, where the identity told what precedes their runs."""
    return Query(
        sql="""
            SELECT m.identity_id, m.candidate_id,
                   percentile_cont(0.5) WITHIN GROUP (ORDER BY m.compile_ns) AS compile_ns,
                   percentile_cont(0.5) WITHIN GROUP (ORDER BY m.optimise_ns) AS optimise_ns,
                   percentile_cont(0.5) WITHIN GROUP (ORDER BY m.pack_ns) AS pack_ns,
                   percentile_cont(0.5) WITHIN GROUP (ORDER BY m.first_run_ns) AS first_run_ns,
                   min(m.best_ns) AS run_ns
            FROM measurement m JOIN candidate c ON c.candidate_id = m.candidate_id
            WHERE m.identity_id = ANY (%(identities)s::uuid[]) AND m.device_class = %(class)s
              AND c.workload_key = %(key)s AND m.outcome = 'ok' AND m.verdict = 'verified'
              AND m.compile_ns IS NOT NULL AND NOT is_denied(m.candidate_id, %(class)s)
            GROUP BY m.identity_id, m.candidate_id
        """,
        parameters={"key": workload_key, "class": device_class, "identities": list(identities)},
        row=CostRow,
    )


LATEST = 64
"""Measurements of a candidate on a class that are looked at; retention keeps as many."""


def measuring_classes(workload_key: str, after: str, limit: int) -> Query[MeasuringClassRow]:
    """Classes that measured a workload, in their order, from the one behind `after` on."""
    return Query(
        sql="""
            WITH measured AS (
                SELECT DISTINCT p.device_class
                FROM tuning_job j JOIN job_progress p ON p.job_id = j.id
                WHERE j.workload_key = %(key)s AND p.last_at IS NOT NULL
            )
            SELECT device_class, (SELECT count(*) FROM measured) AS total FROM measured
            WHERE device_class > %(after)s ORDER BY device_class LIMIT %(limit)s
        """,
        parameters={"key": workload_key, "after": after, "limit": limit},
        row=MeasuringClassRow,
    )


def trials(workload_key: str, device_classes: Sequence[str]) -> Query[TrialRow]:
    """By device class, then in the order of promise in its space, of each candidate by its latest
    verified measurements. A candidate that any identity has run is ok; else its outcome is the
    latest failure.
    """
    return Query(
        sql="""
            WITH found AS (
                SELECT of.device_class, m.candidate_id, m.identity_id, min(m.best_ns) AS best_ns,
                       min(m.relative_time) AS relative_time,
                       (array_agg(m.outcome ORDER BY m.outcome = 'ok' DESC, m.created_at DESC))[1]
                           AS outcome,
                       max(m.created_at) AS measured_at
                FROM unnest(%(classes)s::text[]) AS of (device_class)
                JOIN candidate c ON c.workload_key = %(key)s
                    AND c.target = target_of(of.device_class)
                CROSS JOIN LATERAL (
                    SELECT m.candidate_id, m.identity_id, m.best_ns, m.relative_time, m.outcome,
                           m.created_at
                    FROM measurement m
                    WHERE m.candidate_id = c.candidate_id AND m.device_class = of.device_class
                      AND m.verdict = 'verified' AND m.lease_id > 0
                    ORDER BY m.created_at DESC LIMIT %(latest)s
                ) m
                GROUP BY of.device_class, m.candidate_id, m.identity_id
            ), tried AS MATERIALIZED (
                SELECT device_class, candidate_id,
                       (array_agg(outcome ORDER BY outcome = 'ok' DESC, measured_at DESC))[1]
                           AS outcome,
                       coalesce(array_agg(best_ns ORDER BY best_ns)
                                FILTER (WHERE best_ns IS NOT NULL), '{}') AS times_ns,
                       coalesce(array_agg(relative_time ORDER BY relative_time)
                                FILTER (WHERE relative_time IS NOT NULL), '{}') AS relative_times,
                       max(measured_at) AS measured_at
                FROM found GROUP BY device_class, candidate_id
            )
            SELECT f.device_class, c.candidate_id, c.artifact_sha256 AS sha256,
                   c.config, c.requires, f.outcome, f.times_ns, f.relative_times,
                   coalesce(c.compile_ns, 0) AS compile_ns, f.measured_at
            FROM tried f
            JOIN candidate c ON c.candidate_id = f.candidate_id
            ORDER BY f.device_class, (
                SELECT p.ordinal FROM tuning_job j JOIN space_point p ON p.job_id = j.id
                WHERE j.workload_key = %(key)s AND j.target = c.target
                  AND p.candidate_id = c.candidate_id
                ORDER BY j.space <> space_of(c.target, device_id_of(f.device_class)), j.id LIMIT 1
            ), c.candidate_id
        """,
        parameters={"key": workload_key, "classes": list(device_classes), "latest": LATEST},
        row=TrialRow,
    )


def fastest(
    job_id: int,
    identity_id: UUID,
    device_class: DeviceClass,
    limit: int,
    named: Sequence[str] = (),
) -> Query[RankedRow]:
    """An identity's fastest candidates of a job, fastest first, each by its best measurement; and
    those that are `named`, behind them.

    Whatever the verdict: what an agent is told of its own must not tell whether it is believed.
    """
    return Query(
        sql="""
            SELECT candidate_id, relative_time FROM (
                SELECT m.candidate_id, min(m.relative_time) AS relative_time,
                       row_number() OVER (ORDER BY min(m.relative_time), m.candidate_id) AS place
                FROM measurement m
                JOIN space_point p ON p.candidate_id = m.candidate_id
                WHERE p.job_id = %(job_id)s AND m.identity_id = %(identity)s::uuid
                  AND m.device_class = %(device_class)s AND m.outcome = 'ok'
                GROUP BY m.candidate_id
            ) own
            WHERE place <= %(limit)s OR candidate_id = ANY (%(named)s::text[])
            ORDER BY place
        """,
        parameters={
            "job_id": job_id,
            "identity": str(identity_id),
            "device_class": device_class,
            "limit": limit,
            "named": list(named),
        },
        row=RankedRow,
    )


def accept(
    lease_id: int, identity_id: UUID, nonce: str, found: Sequence[Measurement]
) -> Query[ReportRow]:
    """Checks one report and stores it, all or nothing. In one question, as each more took the
    gateway as long as all else that it does for a report.
    """
    return Query(
        sql="""
            SELECT fault, named, expired_at
            FROM accept_report(%(lease_id)s, %(identity)s::uuid, %(nonce)s,
                               %(candidates)s::text[], %(found)s::jsonb)
        """,
        parameters={
            "lease_id": lease_id,
            "identity": str(identity_id),
            "nonce": nonce,
            "candidates": [each.candidate_id for each in found],
            "found": msgspec.json.encode([_described(each) for each in found]).decode(),
        },
        row=ReportRow,
    )


def _described(found: Measurement) -> dict[str, str | int | float | None]:
    """Describes a measurement as `accept_report` reads it: one text is sent sooner than an array
    for each column."""
    return {
        "candidate_id": found.candidate_id,
        "outcome": found.outcome,
        "samples": _literal(found.samples_ns),
        "reference": _literal(found.reference_ns),
        "calls": found.calls_per_sample,
        "entries": _literal(found.sampled_entries),
        "detail": found.detail,
        "best_ns": min(found.samples_ns, default=None),
        "relative_time": found.relative_time,
        **({} if found.preparation is None else asdict(found.preparation)),
    }


def _literal(numbers: Sequence[float]) -> str:
    """An array in PostgreSQL's own text, which has words for what JSON has no number for.

    msgspec takes a twentieth of the time of `repr`, and writes null for those.
    """
    text = msgspec.json.encode(numbers).decode()
    if "null" in text:
        return "{" + ",".join(map(repr, numbers)) + "}"
    return "{" + text[1:-1] + "}"


def pending(lease_id: int) -> Query[PendingRow]:
    return Query(
        sql="""
            SELECT candidate_id, outcome, sampled_entries, samples_ns, reference_ns
            FROM measurement
            WHERE lease_id = %(lease_id)s AND verdict = 'pending' FOR UPDATE
        """,
        parameters={"lease_id": lease_id},
        row=PendingRow,
    )


def timed(lease_id: int) -> Query[TimedRow]:
    """All samples of a lease so far."""
    return Query(
        sql="""
            SELECT samples_ns, reference_ns FROM measurement
            WHERE lease_id = %(lease_id)s AND outcome = 'ok'
        """,
        parameters={"lease_id": lease_id},
        row=TimedRow,
    )


def judge(lease_id: int, judged: Sequence[Judged]) -> Statement:
    """Stores the verdicts on measurements of a lease. The sampled entries, a third of all that a
    measurement takes, are of no use once they are judged.
    """
    return Statement(
        sql="""
            UPDATE measurement m SET verdict = told.verdict, sampled_entries = '{}',
                   detail = coalesce(nullif(told.detail, ''), m.detail)
            FROM unnest(%(candidates)s::text[], %(verdicts)s::text[], %(details)s::text[])
                AS told (candidate_id, verdict, detail)
            WHERE m.lease_id = %(lease_id)s AND m.candidate_id = told.candidate_id
        """,
        parameters={
            "lease_id": lease_id,
            "candidates": [each.candidate_id for each in judged],
            "verdicts": [str(each.verdict) for each in judged],
            "details": [each.detail for each in judged],
        },
    )


def commit_unawaited() -> Statement:
    """Lets the transaction that it is in end before the disk has it. Verdicts that are lost where
    the database crashes within that moment leave their measurements pending, so that they are
    judged again; a commit that waits for the disk takes longer than to judge a report.
    """
    return Statement(sql="SELECT set_config('synchronous_commit', 'off', true)")


def begin(lease_id: int) -> Query[AttemptRow]:
    """Counts an attempt to judge a lease's pending measurements, unless it is their first.

    In a transaction of its own before the attempt, so that one that kills its worker is counted.
    """
    return Query(
        sql="""
            WITH again AS (
                UPDATE measurement SET retries = retries + 1
                WHERE lease_id = %(lease_id)s AND verdict = 'pending' AND requeued_at > created_at
                RETURNING retries
            )
            SELECT coalesce(max(retries), 0) AS retries FROM again
        """,
        parameters={"lease_id": lease_id},
        row=AttemptRow,
    )


def give_up(lease_id: int, reason: str) -> Query[CandidateIdRow]:
    """A lease's pending measurements are not judged any more."""
    return Query(
        sql="""
            UPDATE measurement SET verdict = %(verdict)s, detail = %(reason)s
            WHERE lease_id = %(lease_id)s AND verdict = 'pending' RETURNING candidate_id
        """,
        parameters={"lease_id": lease_id, "verdict": Verdict.UNJUDGED, "reason": reason},
        row=CandidateIdRow,
    )


def requeue_pending(stalled_s: float) -> Query[LeaseId]:
    """Leases whose measurements wait for a verdict too long; marks them as requeued. After each
    retry they wait four times as long: what kills one worker shall not kill them all, always.
    """
    return Query(
        sql="""
            WITH requeued AS (
                UPDATE measurement SET requeued_at = now()
                WHERE verdict = 'pending'
                  AND requeued_at < now() - make_interval(secs => %(stalled_s)s * 4 ^ retries)
                RETURNING lease_id
            )
            SELECT DISTINCT lease_id FROM requeued
        """,
        parameters={"stalled_s": stalled_s},
        row=LeaseId,
    )


def measured(
    identity_id: UUID, workload_key: str, device_class: DeviceClass, candidate_ids: list[str]
) -> Query[CandidateIdRow]:
    """Names those of the candidates, of this workload, that the identity has timed; whatever the
    verdict, as in `fastest`.
    """
    return Query(
        sql="""
            SELECT DISTINCT m.candidate_id FROM measurement m
            JOIN candidate c ON c.candidate_id = m.candidate_id
            WHERE m.identity_id = %(identity)s::uuid AND m.device_class = %(device_class)s
              AND m.candidate_id = ANY (%(candidates)s) AND c.workload_key = %(key)s
              AND m.outcome = 'ok'
        """,
        parameters={
            "identity": str(identity_id),
            "device_class": device_class,
            "candidates": candidate_ids,
            "key": workload_key,
        },
        row=CandidateIdRow,
    )


def reported(workload_key: str, device_class: DeviceClass, *, enough: int) -> Query[ReportedRow]:
    """Every candidate that a class can run and that is not denied to it, measured or not. Whose
    latest reports are by `enough` has no others read: a kernel may have tens of thousands.
    """
    return Query(
        sql="""
            SELECT c.candidate_id, CASE WHEN lately.identities >= %(enough)s
                THEN lately.identities ELSE (
                    SELECT count(DISTINCT m.identity_id) FROM measurement m
                    WHERE m.candidate_id = c.candidate_id AND m.device_class = %(class)s
                      AND m.verdict IN ('pending', 'verified') AND m.lease_id > 0) END AS identities
            FROM tuning_job j
            JOIN space_point p ON p.job_id = j.id
            JOIN candidate c ON c.candidate_id = p.candidate_id
            CROSS JOIN LATERAL (
                SELECT count(DISTINCT m.identity_id) AS identities FROM (
                    SELECT identity_id FROM measurement
                    WHERE candidate_id = c.candidate_id AND device_class = %(class)s
                      AND verdict IN ('pending', 'verified') AND lease_id > 0
                    ORDER BY created_at DESC LIMIT 4 * %(enough)s) m
            ) lately
            WHERE j.workload_key = %(key)s AND j.target = %(target)s
              AND j.space = space_of(%(target)s, %(device_id)s)
              AND c.state <> 'failed' AND c.requires <@ %(features)s::text[]
              AND NOT EXISTS (
                SELECT FROM denied d
                WHERE d.artifact_sha256 = c.artifact_sha256
                  AND d.device_class = %(class)s AND d.denied)
        """,
        parameters={
            "enough": enough,
            "key": workload_key,
            "class": device_class,
            "target": device_class.target.kind,
            "device_id": device_class.device_id,
            "features": list(device_class.target.features),
        },
        row=ReportedRow,
    )
