"""The zoo: which kernel is served for a key, and its history."""

from dataclasses import dataclass
from datetime import datetime

import msgspec

from kernelzoo.domain.artifact import ArtifactManifest
from kernelzoo.domain.candidate import Setting
from kernelzoo.domain.device import DeviceClass
from kernelzoo.domain.zoo import EntryState, Evidence
from kernelzoo.store.candidates import KernelRow
from kernelzoo.store.query import Query, Statement


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveEntry:
    """The entry that stands for a key: provisional or confirmed."""

    version: int
    candidate_id: str
    state: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DefaultRow:
    candidate_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedRow:
    """What a page gets for one workload; the columns of the entry are null without one."""

    workload_key: str
    flops: int
    fallback_kernel: dict[str, object] | None
    entry_kernel: dict[str, object] | None
    state: str | None
    version: int | None
    ballots: int | None
    weight: int | None
    total_weight: int | None
    relative_time: float | None

    def fallback(self) -> KernelRow | None:
        return msgspec.convert(self.fallback_kernel, KernelRow | None)

    def winner(self) -> KernelRow | None:
        return msgspec.convert(self.entry_kernel, KernelRow | None)


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryRow:
    workload_key: str
    flops: int
    device_class: str
    version: int
    state: str
    published_at: datetime
    candidate_id: str
    kind: str
    config: dict[str, Setting]
    sha256: str
    manifest: dict[str, object]
    ballots: int
    weight: int
    total_weight: int
    relative_time: float
    best_ns: float | None

    def artifact_manifest(self) -> ArtifactManifest:
        return msgspec.convert(self.manifest, ArtifactManifest)


def live_entry(workload_key: str, device_class: str) -> Query[LiveEntry]:
    return Query(
        sql="""
            SELECT version, candidate_id, state FROM zoo_entry
            WHERE workload_key = %(key)s AND device_class = %(class)s AND state <> 'retired'
        """,
        parameters={"key": workload_key, "class": device_class},
        row=LiveEntry,
    )


def default_of(workload_key: str, device_class: DeviceClass) -> Query[DefaultRow]:
    """The job's most promising candidate that the target can run and that did not fail.

    The one that leases name as reference, and that a device unknown to the zoo is served.
    """
    return Query(
        sql="""
            SELECT c.candidate_id
            FROM candidate c JOIN tuning_job j ON j.id = c.job_id
            WHERE j.workload_key = %(key)s AND j.kind = %(kind)s AND c.state <> 'failed'
              AND c.requires <@ %(features)s::text[]
            ORDER BY c.ordinal LIMIT 1
        """,
        parameters={
            "key": workload_key,
            "kind": device_class.target.kind,
            "features": list(device_class.target.features),
        },
        row=DefaultRow,
    )


def retire(workload_key: str, device_class: str) -> Statement:
    return Statement(
        sql="""
            UPDATE zoo_entry SET state = 'retired'
            WHERE workload_key = %(key)s AND device_class = %(class)s AND state <> 'retired'
        """,
        parameters={"key": workload_key, "class": device_class},
    )


def publish(
    workload_key: str,
    device_class: str,
    candidate_id: str,
    state: EntryState,
    evidence: Evidence,
) -> Statement:
    """The next version of a key. The live one must have been retired before."""
    return Statement(
        sql="""
            INSERT INTO zoo_entry (workload_key, device_class, version, candidate_id, state,
                                   ballots, weight, total_weight, relative_time)
            SELECT %(key)s, %(class)s, coalesce(max(version), 0) + 1, %(candidate)s, %(state)s,
                   %(ballots)s, %(weight)s, %(total_weight)s, %(relative_time)s
            FROM zoo_entry WHERE workload_key = %(key)s AND device_class = %(class)s
        """,
        parameters={
            "key": workload_key,
            "class": device_class,
            "candidate": candidate_id,
            "state": state,
            "ballots": evidence.ballots,
            "weight": evidence.weight,
            "total_weight": evidence.total_weight,
            "relative_time": evidence.relative_time,
        },
    )


def update_evidence(workload_key: str, device_class: str, evidence: Evidence) -> Statement:
    return Statement(
        sql="""
            UPDATE zoo_entry SET ballots = %(ballots)s, weight = %(weight)s,
                   total_weight = %(total_weight)s, relative_time = %(relative_time)s
            WHERE workload_key = %(key)s AND device_class = %(class)s AND state <> 'retired'
        """,
        parameters={
            "key": workload_key,
            "class": device_class,
            "ballots": evidence.ballots,
            "weight": evidence.weight,
            "total_weight": evidence.total_weight,
            "relative_time": evidence.relative_time,
        },
    )


def served(workload_keys: list[str], device_class: DeviceClass) -> Query[ServedRow]:
    """One row for each workload, in order: its confirmed entry, if any, and its default kernel.

    The default is the most promising compiled candidate that runs on the target.
    """
    return Query(
        sql="""
            SELECT w.key AS workload_key, w.flops,
                   f.described AS fallback_kernel, k.described AS entry_kernel,
                   e.state, e.version, e.ballots, e.weight, e.total_weight, e.relative_time
            FROM unnest(%(keys)s::text[]) WITH ORDINALITY AS asked (key, position)
            JOIN workload w ON w.key = asked.key
            LEFT JOIN LATERAL (
                SELECT to_jsonb(kernel) AS described
                FROM tuning_job j
                JOIN candidate c ON c.job_id = j.id
                JOIN kernel ON kernel.candidate_id = c.candidate_id
                WHERE j.workload_key = w.key AND j.kind = %(kind)s
                  AND c.requires <@ %(features)s::text[]
                ORDER BY c.ordinal LIMIT 1
            ) f ON true
            LEFT JOIN zoo_entry e ON e.workload_key = w.key AND e.device_class = %(class)s
                AND e.state = 'confirmed'
            LEFT JOIN LATERAL (
                SELECT to_jsonb(kernel) AS described FROM kernel
                WHERE kernel.candidate_id = e.candidate_id
            ) k ON true
            ORDER BY asked.position
        """,
        parameters={
            "keys": workload_keys,
            "kind": device_class.target.kind,
            "features": list(device_class.target.features),
            "class": str(device_class),
        },
        row=ServedRow,
    )


def entries(workload_key: str | None = None) -> Query[EntryRow]:
    """Live entries, the latest first. `best_ns`: median over identities of their best sample."""
    return Query(
        sql="""
            SELECT e.workload_key, w.flops, e.device_class, e.version, e.state, e.published_at,
                   e.candidate_id, a.kind, c.config, a.sha256, c.manifest, e.ballots, e.weight,
                   e.total_weight, e.relative_time, m.best_ns
            FROM zoo_entry e
            JOIN workload w ON w.key = e.workload_key
            JOIN candidate c ON c.candidate_id = e.candidate_id
            JOIN artifact a ON a.sha256 = c.artifact_sha256
            LEFT JOIN LATERAL (
                SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY best) AS best_ns FROM (
                    SELECT min(best_ns) AS best FROM measurement
                    WHERE candidate_id = e.candidate_id AND device_class = e.device_class
                      AND verdict = 'verified'
                    GROUP BY identity_id
                ) AS identities
            ) m ON true
            WHERE e.state <> 'retired' AND (%(key)s::text IS NULL OR e.workload_key = %(key)s)
            ORDER BY e.published_at DESC LIMIT 1000
        """,
        parameters={"key": workload_key},
        row=EntryRow,
    )
