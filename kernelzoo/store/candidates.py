"""Candidates of a tuning job and the artifacts they compile to."""

from dataclasses import dataclass

import msgspec

from kernelzoo.domain.artifact import Artifact, ArtifactManifest
from kernelzoo.domain.candidate import Candidate, Setting
from kernelzoo.domain.target import TargetKind
from kernelzoo.domain.workload import Workload, WorkloadKey
from kernelzoo.store.query import Query, Statement

MAX_ATTEMPTS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class CandidateIdRow:
    candidate_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Configured:
    """A candidate is made of these."""

    workload_key: WorkloadKey
    target: str
    config: dict[str, Setting]
    requires: list[str]

    def to_candidate(self, workload: Workload) -> Candidate:
        """`workload` is what the key names."""
        return Candidate(
            workload=workload,
            target=TargetKind(self.target),
            config=tuple(sorted(self.config.items())),
            requires=tuple(self.requires),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CandidateRow(Configured):
    candidate_id: str
    attempts: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingRow:
    """`job_id` and `ordinal`: its place in the first space that brought it."""

    candidate_id: str
    job_id: int
    ordinal: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ArtifactBody:
    target: str
    body: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedBody:
    sha256: str
    body: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelRow:
    """A compiled candidate as it is described to a page."""

    candidate_id: str
    sha256: str
    size_bytes: int
    manifest: ArtifactManifest


def add(job_id: int, ordinal: int, candidate: Candidate) -> Query[CandidateIdRow]:
    """Makes it a point of the job's space. No row when another space has brought it before.

    Add the candidates of a space in the order of their ids: two jobs that share some would else
    wait for each other.
    """
    return Query(
        sql="""
            WITH added AS (
                INSERT INTO candidate (candidate_id, workload_key, target, config, requires)
                VALUES (%(id)s, %(key)s, %(target)s, %(config)s::jsonb, %(requires)s)
                ON CONFLICT (candidate_id) DO NOTHING
                RETURNING candidate_id
            ), placed AS (
                INSERT INTO space_point (job_id, ordinal, candidate_id)
                VALUES (%(job_id)s, %(ordinal)s, %(id)s)
            )
            SELECT candidate_id FROM added
        """,
        parameters={
            "id": candidate.candidate_id,
            "key": candidate.workload.key,
            "target": candidate.target,
            "job_id": job_id,
            "ordinal": ordinal,
            "config": msgspec.json.encode(dict(candidate.config)).decode(),
            "requires": list(candidate.requires),
        },
        row=CandidateIdRow,
    )


def mark_defaults(job_id: int) -> Query[CandidateIdRow]:
    """Marks the defaults of a space that any device may ask for; gives those that wait."""
    return Query(
        sql="""
            UPDATE candidate SET is_default = true
            WHERE (SELECT space IN ('', 'any') FROM tuning_job WHERE id = %(job_id)s)
              AND candidate_id = ANY (ARRAY(SELECT * FROM default_candidates(%(job_id)s)))
              AND state = 'waiting' AND NOT is_default
            RETURNING candidate_id
        """,
        parameters={"job_id": job_id},
        row=CandidateIdRow,
    )


def replace_default(candidate_id: str) -> Query[CandidateIdRow]:
    """Marks those that are defaults in the place of one that failed; gives those that wait."""
    return Query(
        sql="""
            UPDATE candidate SET is_default = true
            WHERE candidate_id = ANY (ARRAY(
                SELECT d.candidate_id
                FROM space_point p JOIN tuning_job j ON j.id = p.job_id
                CROSS JOIN LATERAL default_candidates(j.id) d
                WHERE p.candidate_id = %(id)s AND j.space IN ('', 'any')))
              AND state = 'waiting' AND NOT is_default
            RETURNING candidate_id
        """,
        parameters={"id": candidate_id},
        row=CandidateIdRow,
    )


def claim(candidate_id: str) -> Query[CandidateRow]:
    """Counts an attempt on a waiting candidate. No row when it is not waiting any more, or when
    every job that it was for is cancelled.
    """
    return Query(
        sql="""
            UPDATE candidate SET attempts = attempts + 1
            WHERE candidate_id = %(id)s AND state = 'waiting' AND is_wanted(candidate_id)
            RETURNING candidate_id, workload_key, target, config, requires, attempts
        """,
        parameters={"id": candidate_id},
        row=CandidateRow,
    )


def store_artifact(artifact: Artifact) -> Statement:
    return Statement(
        sql="""
            INSERT INTO artifact (sha256, target, body)
            VALUES (%(sha256)s, %(target)s, %(body)s)
            ON CONFLICT (sha256) DO NOTHING
        """,
        parameters={
            "sha256": artifact.sha256,
            "target": artifact.manifest.target,
            "body": artifact.body,
        },
    )


def compiled(candidate_id: str, artifact: Artifact, compile_ns: int) -> Statement:
    """The artifact, and the pack kernels that its manifest names, must have been stored."""
    return Statement(
        sql="""
            UPDATE candidate SET state = 'compiled', artifact_sha256 = %(sha256)s,
                   manifest = %(manifest)s::jsonb, compile_ns = %(compile_ns)s,
                   compiled_at = clock_timestamp()
            WHERE candidate_id = %(id)s AND state = 'waiting'
        """,
        parameters={
            "id": candidate_id,
            "sha256": artifact.sha256,
            "manifest": msgspec.json.encode(artifact.manifest).decode(),
            "compile_ns": compile_ns,
        },
    )


def failed(candidate_id: str, detail: str) -> Statement:
    return Statement(
        sql="""
            UPDATE candidate SET state = 'failed', detail = %(detail)s
            WHERE candidate_id = %(id)s AND state = 'waiting'
        """,
        parameters={"id": candidate_id, "detail": detail},
    )


def requeue_defaults(stalled_s: float) -> Query[CandidateIdRow]:
    """Waiting defaults whose message seems lost; marks them as requeued."""
    return Query(
        sql="""
            UPDATE candidate c SET requeued_at = now()
            WHERE c.state = 'waiting' AND c.is_default AND is_wanted(c.candidate_id)
              AND c.requeued_at < now() - make_interval(secs => %(stalled_s)s)
            RETURNING c.candidate_id
        """,
        parameters={"stalled_s": stalled_s},
        row=CandidateIdRow,
    )


def requeue_waiting(stalled_s: float, limit: int) -> Query[WaitingRow]:
    """Waiting candidates whose message seems lost, of the oldest jobs; marks them as requeued. The
    defaults among them are `requeue_defaults`'s."""
    return Query(
        sql="""
            WITH stalled AS (
                SELECT c.candidate_id, first.job_id, first.ordinal
                FROM candidate c
                CROSS JOIN LATERAL (
                    SELECT p.job_id, p.ordinal FROM space_point p
                    WHERE p.candidate_id = c.candidate_id ORDER BY p.job_id LIMIT 1
                ) first
                WHERE c.state = 'waiting' AND NOT c.is_default AND is_wanted(c.candidate_id)
                  AND c.requeued_at < now() - make_interval(secs => %(stalled_s)s)
                ORDER BY first.job_id, first.ordinal LIMIT %(limit)s
                FOR UPDATE OF c SKIP LOCKED
            )
            UPDATE candidate c SET requeued_at = now()
            FROM stalled WHERE c.candidate_id = stalled.candidate_id
            RETURNING c.candidate_id, stalled.job_id, stalled.ordinal
        """,
        parameters={"stalled_s": stalled_s, "limit": limit},
        row=WaitingRow,
    )


def artifact_body(sha256: str, target: TargetKind) -> Query[ArtifactBody]:
    return Query(
        sql="SELECT target, body FROM artifact WHERE sha256 = %(sha256)s AND target = %(target)s",
        parameters={"sha256": sha256, "target": target},
        row=ArtifactBody,
    )


def bodies(hashes: list[str], target: TargetKind) -> Query[NamedBody]:
    """Artifacts of a target, in no order."""
    return Query(
        sql="""
            SELECT sha256, body FROM artifact
            WHERE sha256 = ANY (%(hashes)s) AND target = %(target)s
        """,
        parameters={"hashes": hashes, "target": target},
        row=NamedBody,
    )


def kernels(candidate_ids: list[str]) -> Query[KernelRow]:
    """Reads the kernels of candidates that are compiled, in no order."""
    return Query(
        sql="SELECT kernel.* FROM kernel WHERE candidate_id = ANY (%(ids)s)",
        parameters={"ids": candidate_ids},
        row=KernelRow,
    )
