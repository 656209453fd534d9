"""Finds what the zoo offers a class for workloads on which it has not voted (docs/chain.md)."""

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from kernelzoo.domain.device import DeviceClass
from kernelzoo.domain.kinship import STRANGER, Families
from kernelzoo.domain.trust import Trust
from kernelzoo.domain.workload import WorkloadKey
from kernelzoo.store.candidates import KernelRow
from kernelzoo.store.query import Query, Statement

EARLIEST, LATEST = 128, 128
"""Measurements of a winner on a class by which its voters are known. Whoever comes later with ever
more identities puts the latest of others out of sight, and not the earliest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferRow:
    """A kernel that a step of the chain would serve.

    `neighbour`: the workload that it was chosen for, '' for this one. `rho_distance` is null where
    no other class speaks. `identities` measured it or voted on it, in `classes` device classes.
    """

    workload_key: WorkloadKey
    level: str
    candidate_id: str
    neighbour: str
    rho_distance: int | None
    relative_time: float | None
    classes: int
    identities: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedKernelRow(KernelRow):
    """`best_ns` as `zoo.ServedRow` has it."""

    best_ns: float | None
    identities: int


@dataclass(frozen=True, slots=True, kw_only=True)
class UnaggregatedRow:
    workload_key: WorkloadKey


@dataclass(frozen=True, slots=True, kw_only=True)
class VoterRow:
    """A voter measured the winner of a class; `network` is '' for the operator's agents."""

    device_class: DeviceClass
    identity_id: UUID
    network: str
    attested: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassTimeRow:
    """A kernel on a class: the median over `identities` of its time over the reference's."""

    device_class: DeviceClass
    cpu_architecture: str
    logical_cores: int
    gpu_vendor: str
    gpu_architecture: str
    candidate_id: str
    relative_time: float
    identities: int


def offers(
    workload_keys: list[str],
    device_class: DeviceClass,
    *,
    space: str,
    families: Families,
    quorum: int,
) -> Query[OfferRow]:
    """For each workload the best kernel of each step that has any, and all that nearby shapes of
    this class would give it; in no order. Only of entries that `quorum` voters confirmed; those of
    other classes must speak.
    """
    return Query(
        sql="""
            WITH fit AS MATERIALIZED (
                SELECT s.workload_key AS key, s.candidate_id, s.config,
                       operation_of(s.workload_key) AS operation
                FROM servable(%(keys)s::text[], %(class)s, %(space)s) s
            ), own AS MATERIALIZED (
                SELECT e.workload_key, e.candidate_id, e.device_class, e.rho, e.ballots, e.speaks
                FROM zoo_entry e
                WHERE e.device_id = %(device_id)s
                  AND e.state = 'confirmed' AND e.ballots >= %(quorum)s
            ), learned AS MATERIALIZED (
                SELECT own.workload_key, operation_of(own.workload_key) AS operation, c.config,
                       own.ballots
                FROM own JOIN candidate c ON c.candidate_id = own.candidate_id
                WHERE own.device_class = %(class)s
            ), device AS (
                SELECT DISTINCT ON (fit.key)
                       fit.key AS workload_key, 'device' AS level, fit.candidate_id,
                       '' AS neighbour,
                       rho_distance(own.rho, %(rho)s) AS rho_distance,
                       NULL::double precision AS relative_time, 1 AS classes,
                       own.ballots AS identities
                FROM own JOIN fit
                  ON fit.key = own.workload_key AND fit.candidate_id = own.candidate_id
                WHERE own.device_class <> %(class)s AND own.speaks
                ORDER BY fit.key, rho_distance, own.ballots DESC, own.device_class
            ), by_family AS (
                SELECT DISTINCT ON (fit.key, k.scope)
                       fit.key, k.scope, fit.candidate_id, '',
                       rho_distance(k.rho, %(rho)s) AS rho_distance, k.relative_time, k.classes,
                       k.identities
                FROM unnest(%(scopes)s::text[], %(families)s::text[]) AS mine (scope, family)
                JOIN common_kernel k ON k.workload_key = ANY (%(keys)s)
                 AND k.scope = mine.scope AND k.family = mine.family
                JOIN fit ON fit.key = k.workload_key AND fit.candidate_id = k.candidate_id
                ORDER BY fit.key, k.scope, rho_distance, k.relative_time, fit.candidate_id
            ), shape AS (
                SELECT fit.key, 'shape', fit.candidate_id, l.workload_key, NULL::integer,
                       NULL::double precision, 1, l.ballots
                FROM learned l
                JOIN fit ON fit.operation = l.operation AND fit.config = l.config
                WHERE fit.key <> l.workload_key
            ), model AS (
                SELECT DISTINCT ON (fit.key)
                       fit.key, 'model', fit.candidate_id, '', NULL::integer,
                       NULL::double precision, 0, 0
                FROM tuning_job j
                JOIN evaluation_order o ON o.job_id = j.id
                 AND o.device_class IN (%(class)s, %(stranger)s) AND o.model_version > 0
                CROSS JOIN LATERAL unnest(o.candidate_ids) WITH ORDINALITY
                    AS foretold (candidate_id, place)
                JOIN fit ON fit.key = j.workload_key AND fit.candidate_id = foretold.candidate_id
                WHERE j.workload_key = ANY (%(keys)s) AND j.space IN (%(space)s, 'any')
                ORDER BY fit.key, o.device_class <> %(class)s, j.space = 'any', foretold.place
            )
            SELECT * FROM device UNION ALL SELECT * FROM by_family
            UNION ALL SELECT * FROM shape UNION ALL SELECT * FROM model
        """,
        parameters={
            "keys": workload_keys,
            "class": device_class,
            "stranger": stranger_of(device_class),
            "device_id": device_class.device_id,
            "rho": str(device_class.rho),
            "space": space,
            "scopes": [str(level) for level in families],
            "families": list(families.values()),
            "quorum": quorum,
        },
        row=OfferRow,
    )


def stranger_of(device_class: DeviceClass) -> str:
    """The class of all unknown devices with these features and this primitive vector."""
    return f"{STRANGER}:{device_class.rho}:{device_class.target}"


def kernels(candidate_ids: list[str], device_class: DeviceClass) -> Query[TimedKernelRow]:
    """Reads kernels as a page is told of them, with what is known of their time on this class."""
    return Query(
        sql="""
            SELECT kernel.*, t.best_ns, t.identities
            FROM kernel CROSS JOIN LATERAL kernel_time(kernel.candidate_id, %(class)s) t
            WHERE kernel.candidate_id = ANY (%(ids)s)
        """,
        parameters={"ids": candidate_ids, "class": device_class},
        row=TimedKernelRow,
    )


def unaggregated(limit: int) -> Query[UnaggregatedRow]:
    """Workloads of which some confirmed entry is new, has new evidence, or has gone."""
    return Query(
        sql="""
            SELECT DISTINCT workload_key FROM zoo_entry
            WHERE NOT aggregated AND state <> 'provisional' ORDER BY workload_key LIMIT %(limit)s
        """,
        parameters={"limit": limit},
        row=UnaggregatedRow,
    )


def lock_aggregation(workload_key: str) -> Statement:
    """Poolings of one workload take turns until the transaction ends."""
    return Statement(
        sql="SELECT pg_advisory_xact_lock(hashtextextended(%(key)s, 3))",
        parameters={"key": workload_key},
    )


def mark_aggregated(workload_key: str) -> Statement:
    """Marks the workload's entries as aggregated. Run it before reading: what is published between
    the two is then aggregated twice rather than not at all.
    """
    return Statement(
        sql="""
            UPDATE zoo_entry SET aggregated = true
            WHERE workload_key = %(key)s AND NOT aggregated AND state <> 'provisional'
        """,
        parameters={"key": workload_key},
    )


def voters(workload_key: str, quorum: int, trust: Trust) -> Query[VoterRow]:
    """Whom the zoo trusts of those who measured the winners of the classes that have one, by the
    `EARLIEST` and `LATEST` of each, in the order in which each first did; strangers once a whole
    lease of theirs was valid.
    """
    return Query(
        sql="""
            WITH measured AS MATERIALIZED (
                -- No session is looked up where strangers are trusted in any.
                SELECT e.device_class, m.identity_id, m.first_at, m.trusted_at
                FROM zoo_entry e
                CROSS JOIN LATERAL (
                    SELECT m.identity_id, min(m.created_at) AS first_at,
                           min(m.created_at) FILTER (
                               WHERE is_trusted(%(trust)s, false, NULL) OR EXISTS (
                                   SELECT FROM lease l JOIN agent_session s ON s.id = l.session_id
                                   WHERE l.id = m.lease_id
                                     AND is_trusted(%(trust)s, false, s.application_id))
                           ) AS trusted_at
                    FROM (
                        (SELECT m.identity_id, m.created_at, m.lease_id FROM measurement m
                         WHERE m.candidate_id = e.candidate_id AND m.device_class = e.device_class
                           AND m.outcome = 'ok' AND m.verdict = 'verified' AND m.lease_id > 0
                         ORDER BY m.created_at LIMIT %(earliest)s)
                        UNION
                        (SELECT m.identity_id, m.created_at, m.lease_id FROM measurement m
                         WHERE m.candidate_id = e.candidate_id AND m.device_class = e.device_class
                           AND m.outcome = 'ok' AND m.verdict = 'verified' AND m.lease_id > 0
                         ORDER BY m.created_at DESC LIMIT %(latest)s)
                    ) m
                    GROUP BY m.identity_id
                ) m
                WHERE e.workload_key = %(key)s AND e.state = 'confirmed'
                  AND e.ballots >= %(quorum)s
            )
            SELECT m.device_class, i.id AS identity_id,
                   CASE WHEN i.operated THEN '' ELSE i.network END AS network, i.attested
            FROM measured m
            JOIN identity i ON i.id = m.identity_id
             AND (i.operated OR i.valid_in_row > 0 AND m.trusted_at IS NOT NULL)
            ORDER BY CASE WHEN i.operated THEN m.first_at ELSE m.trusted_at END, i.id
        """,
        parameters={
            "key": workload_key,
            "quorum": quorum,
            "trust": trust,
            "earliest": EARLIEST,
            "latest": LATEST,
        },
        row=VoterRow,
    )


def class_times(
    workload_key: str, quorum: int, *, device_classes: list[DeviceClass], identities: list[str]
) -> Query[ClassTimeRow]:
    """Times of the winners of these classes, on each of them, where a quorum of its voters measured
    them, in the `EARLIEST` and `LATEST` measurements of each winner on each class.

    `identities` are the voters, each beside its class.
    """
    return Query(
        sql="""
            WITH voter AS MATERIALIZED (
                SELECT * FROM unnest(%(classes)s::text[], %(identities)s::uuid[])
                    AS voter (device_class, identity_id)
            ), winner AS MATERIALIZED (
                SELECT DISTINCT candidate_id FROM zoo_entry
                WHERE workload_key = %(key)s AND state = 'confirmed'
                  AND device_class = ANY (%(classes)s::text[])
            ), timed AS (
                SELECT m.device_class, m.candidate_id, min(m.relative_time) AS time
                FROM winner
                CROSS JOIN (SELECT DISTINCT device_class FROM voter) voting
                CROSS JOIN LATERAL (
                    (SELECT m.device_class, m.candidate_id, m.identity_id, m.relative_time
                     FROM measurement m
                     WHERE m.candidate_id = winner.candidate_id
                       AND m.device_class = voting.device_class
                       AND m.outcome = 'ok' AND m.verdict = 'verified' AND m.lease_id > 0
                     ORDER BY m.created_at LIMIT %(earliest)s)
                    UNION
                    (SELECT m.device_class, m.candidate_id, m.identity_id, m.relative_time
                     FROM measurement m
                     WHERE m.candidate_id = winner.candidate_id
                       AND m.device_class = voting.device_class
                       AND m.outcome = 'ok' AND m.verdict = 'verified' AND m.lease_id > 0
                     ORDER BY m.created_at DESC LIMIT %(latest)s)
                ) m
                JOIN voter ON voter.device_class = m.device_class
                 AND voter.identity_id = m.identity_id
                GROUP BY m.device_class, m.candidate_id, m.identity_id
            ), known AS (
                SELECT device_class, candidate_id, count(*) AS identities,
                       percentile_cont(0.5) WITHIN GROUP (ORDER BY time) AS relative_time
                FROM timed GROUP BY device_class, candidate_id HAVING count(*) >= %(quorum)s
            )
            SELECT known.*, d.cpu_architecture, d.logical_cores, d.gpu_vendor, d.gpu_architecture
            FROM known JOIN device d ON d.device_id = device_id_of(known.device_class)
            ORDER BY device_class, candidate_id
        """,
        parameters={
            "key": workload_key,
            "quorum": quorum,
            "classes": device_classes,
            "identities": identities,
            "earliest": EARLIEST,
            "latest": LATEST,
        },
        row=ClassTimeRow,
    )


def speak(workload_key: str, device_classes: list[DeviceClass]) -> Statement:
    """Lets the workload's entries of these classes speak for others, and no other entry."""
    return Statement(
        sql="""
            UPDATE zoo_entry SET speaks = NOT speaks
            WHERE workload_key = %(key)s AND state = 'confirmed'
              AND speaks <> (device_class = ANY (%(classes)s::text[]))
        """,
        parameters={"key": workload_key, "classes": device_classes},
    )


def forget(workload_key: str) -> Statement:
    return Statement(
        sql="DELETE FROM common_kernel WHERE workload_key = %(key)s",
        parameters={"key": workload_key},
    )


def put_common(
    workload_key: str,
    *,
    scopes: Sequence[str],
    families: Sequence[str],
    rhos: Sequence[str],
    candidate_ids: Sequence[str],
    relative_times: Sequence[float],
    classes: Sequence[int],
    identities: Sequence[int],
) -> Statement:
    """One row for each place of these columns."""
    return Statement(
        sql="""
            INSERT INTO common_kernel (workload_key, scope, family, rho, candidate_id,
                                       relative_time, classes, identities)
            SELECT %(key)s, * FROM unnest(
                %(scopes)s::text[], %(families)s::text[], %(rhos)s::text[],
                %(candidates)s::text[], %(times)s::double precision[], %(classes)s::integer[],
                %(identities)s::integer[])
        """,
        parameters={
            "key": workload_key,
            "scopes": list(scopes),
            "families": list(families),
            "rhos": list(rhos),
            "candidates": list(candidate_ids),
            "times": list(relative_times),
            "classes": list(classes),
            "identities": list(identities),
        },
    )
