"""Candidates of a tuning job and the artifacts they compile to."""

from dataclasses import dataclass

import msgspec

from kernelzoo.domain.artifact import Artifact, ArtifactManifest
from kernelzoo.domain.candidate import Candidate, Setting
from kernelzoo.domain.target import TargetKind
from kernelzoo.domain.workload import Workload
from kernelzoo.store.query import Query, Statement

MAX_ATTEMPTS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Configured:
    """What a candidate is made of."""

    workload_key: str
    kind: str
    config: dict[str, Setting]
    requires: list[str]

    def to_candidate(self) -> Candidate:
        return Candidate(
            workload=Workload.parse(self.workload_key),
            kind=TargetKind(self.kind),
            config=tuple(sorted(self.config.items())),
            requires=tuple(self.requires),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CandidateRow(Configured):
    candidate_id: str
    ordinal: int
    attempts: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingRow:
    job_id: int
    ordinal: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ArtifactBody:
    kind: str
    body: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelRow:
    """A compiled candidate as it is described to a page."""

    candidate_id: str
    sha256: str
    size_bytes: int
    manifest: dict[str, object]

    def artifact_manifest(self) -> ArtifactManifest:
        return msgspec.convert(self.manifest, ArtifactManifest)


def add(job_id: int, ordinal: int, candidate: Candidate) -> Statement:
    return Statement(
        sql="""
            INSERT INTO candidate (candidate_id, job_id, ordinal, config, requires)
            VALUES (%(id)s, %(job_id)s, %(ordinal)s, %(config)s::jsonb, %(requires)s)
            ON CONFLICT (candidate_id) DO NOTHING
        """,
        parameters={
            "id": candidate.candidate_id,
            "job_id": job_id,
            "ordinal": ordinal,
            "config": msgspec.json.encode(dict(candidate.config)).decode(),
            "requires": list(candidate.requires),
        },
    )


def waiting(job_id: int) -> Query[WaitingRow]:
    return Query(
        sql="""
            SELECT job_id, ordinal FROM candidate
            WHERE job_id = %(job_id)s AND state = 'waiting' ORDER BY ordinal
        """,
        parameters={"job_id": job_id},
        row=WaitingRow,
    )


def claim(job_id: int, ordinal: int) -> Query[CandidateRow]:
    """Counts an attempt on a waiting candidate. No row when it is not waiting any more."""
    return Query(
        sql="""
            UPDATE candidate c SET attempts = attempts + 1
            FROM tuning_job j
            WHERE j.id = c.job_id AND c.job_id = %(job_id)s AND c.ordinal = %(ordinal)s
              AND c.state = 'waiting'
            RETURNING c.candidate_id, c.ordinal, j.workload_key, j.kind, c.config, c.requires,
                      c.attempts
        """,
        parameters={"job_id": job_id, "ordinal": ordinal},
        row=CandidateRow,
    )


def store_artifact(artifact: Artifact) -> Statement:
    return Statement(
        sql="""
            INSERT INTO artifact (sha256, kind, body, manifest)
            VALUES (%(sha256)s, %(kind)s, %(body)s, %(manifest)s::jsonb)
            ON CONFLICT (sha256) DO NOTHING
        """,
        parameters={
            "sha256": artifact.sha256,
            "kind": artifact.manifest.kind,
            "body": artifact.body,
            "manifest": msgspec.json.encode(artifact.manifest).decode(),
        },
    )


def compiled(candidate_id: str, sha256: str, compile_ns: int) -> Statement:
    return Statement(
        sql="""
            UPDATE candidate SET state = 'compiled', artifact_sha256 = %(sha256)s,
                   compile_ns = %(compile_ns)s, compiled_at = clock_timestamp()
            WHERE candidate_id = %(id)s AND state = 'waiting'
        """,
        parameters={"id": candidate_id, "sha256": sha256, "compile_ns": compile_ns},
    )


def failed(candidate_id: str, detail: str) -> Statement:
    return Statement(
        sql="""
            UPDATE candidate SET state = 'failed', detail = %(detail)s
            WHERE candidate_id = %(id)s AND state = 'waiting'
        """,
        parameters={"id": candidate_id, "detail": detail},
    )


def ring_waiting(stalled_s: float, limit: int) -> Query[WaitingRow]:
    """Waiting candidates of planned jobs whose message seems lost; marks them as rung."""
    return Query(
        sql="""
            UPDATE candidate SET rung_at = now()
            WHERE candidate_id IN (
                SELECT candidate_id FROM candidate
                WHERE state = 'waiting' AND rung_at < now() - make_interval(secs => %(stalled_s)s)
                ORDER BY job_id, ordinal LIMIT %(limit)s
                FOR UPDATE SKIP LOCKED
            )
            RETURNING job_id, ordinal
        """,
        parameters={"stalled_s": stalled_s, "limit": limit},
        row=WaitingRow,
    )


def artifact_body(sha256: str, kind: TargetKind) -> Query[ArtifactBody]:
    return Query(
        sql="SELECT kind, body FROM artifact WHERE sha256 = %(sha256)s AND kind = %(kind)s",
        parameters={"sha256": sha256, "kind": kind},
        row=ArtifactBody,
    )


def kernels(candidate_ids: list[str]) -> Query[KernelRow]:
    """Compiled candidates in the order of their promise."""
    return Query(
        sql="""
            SELECT kernel.* FROM kernel JOIN candidate c USING (candidate_id)
            WHERE c.candidate_id = ANY (%(ids)s) ORDER BY c.job_id, c.ordinal
        """,
        parameters={"ids": candidate_ids},
        row=KernelRow,
    )
