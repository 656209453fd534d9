"""Finds what an agent may be lent: the jobs that it has a share in, and what is known of their
space."""

from dataclasses import dataclass
from math import inf
from uuid import UUID

from kernelzoo.domain.device import DeviceClass
from kernelzoo.domain.workload import WorkloadKey
from kernelzoo.store.query import Parameter, Query, Statement

RECENT = 32
"""Measurements of a candidate on a class that are looked at: the latest. It bounds what a poll
costs on a class that many thousands have measured."""

CREDIBLE = 0.34
"""Share of the networks whose times of a kernel are as fast as the one that it is ranked by, once
twice the cover have measured it; till then the fastest ranks. Attackers bury no kernel by calling
it slow, unless they are two thirds of those who measured it, nor make one lead for long."""

PRESENT = 100
"""Identities of a class that are told apart by number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BorrowerRow:
    """`sharers`: identities of its class with an open session, itself among them."""

    valid_in_row: int
    sharers: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LendableJobRow:
    """`reference_id` is the default kernel of the job for this agent's target. `closed`: the agent
    has done its share before; only what is served since then is left."""

    job_id: int
    priority: float
    workload_key: WorkloadKey
    reference_id: str
    closed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ProspectRow:
    """A candidate of a job as one identity may be lent it.

    `mine`: this identity has reported it, and that stands. `again`: it has, but is to measure it
    again in its browser of today. `held`: it is on an open lease of this identity.

    The others of its class are counted by network, the operator's agents each: `answered` have a
    report that counts, `lent` hold it on an open lease that was heard of lately or wait for the
    verdict on it, and `known_by` have a verified time. `relative_time` is the fastest that is
    credible (`CREDIBLE`), in times of the reference kernel, and `fastest` the fastest of all;
    `relative_preparation` is what precedes warm runs, told in the same way as the first, null where
    nobody has told it.

    `champion`: it is what the class is served; `contender`: the class's times put it before that,
    and too few have reported it. `similar`: 0 where it is served to the same device with another ρ,
    1 where to devices of the same architecture, else null.
    """

    candidate_id: str
    compiled: bool
    mine: bool
    again: bool
    held: bool
    answered: int
    lent: int
    known_by: int
    relative_time: float | None
    fastest: float | None
    relative_preparation: float | None
    champion: bool
    contender: bool
    similar: int | None


def lock_class(device_class: DeviceClass) -> Statement:
    """Loans to one device class take turns until the transaction ends, so that two agents who ask
    at one moment are not lent the same.
    """
    return Statement(
        sql="SELECT pg_advisory_xact_lock(hashtextextended(%(class)s, 1))",
        parameters={"class": device_class},
    )


def borrower(identity_id: UUID, device_class: DeviceClass, session_s: int) -> Query[BorrowerRow]:
    """No row for an identity that was erased."""
    return Query(
        sql="""
            SELECT i.valid_in_row, (
                SELECT count(DISTINCT CASE WHEN other.operated THEN other.id::text
                                           ELSE other.network END)
                FROM (
                    SELECT identity_id FROM agent_session
                    WHERE device_class = %(class)s
                      AND created_at > now() - make_interval(secs => %(session_s)s)
                    ORDER BY created_at DESC LIMIT %(present)s
                ) s JOIN identity other ON other.id = s.identity_id) AS sharers
            FROM identity i WHERE i.id = %(identity)s::uuid AND i.erased_at IS NULL
        """,
        parameters={
            "identity": str(identity_id),
            "class": device_class,
            "session_s": session_s,
            "present": PRESENT,
        },
        row=BorrowerRow,
    )


FIRST = (inf, 0)


def next_job(
    identity_id: UUID,
    device_class: DeviceClass,
    after: tuple[float, int] = FIRST,
    application_id: int | None = None,
    workload_keys: list[str] | None = None,
) -> Query[LendableJobRow]:
    """The oldest of the highest priority after the job of this priority and number, of the space of
    its device, in which an identity may have anything to do: its share, or what is served since it
    did that or contends with it. A share is done with a ballot, where there is anything to vote
    for: a page that was closed before its own is asked again. Where `workload_keys` are given there
    are no others, their order is that of priority, and all applications may name them: a page that
    runs a model names its workloads.

    Nothing is lent before the job's reference kernel is compiled, so that relative times of one
    job share their base; and nothing of a workload that is not measured.
    """
    return Query(
        sql="""
            WITH open AS MATERIALIZED (
                SELECT j.id, j.priority, j.workload_key, share.closed_at
                FROM (
                    SELECT id, workload_key, target, space, state, cancelled_at,
                           CASE WHEN %(only)s::text[] IS NULL THEN priority
                                ELSE -array_position(%(only)s, workload_key) END AS priority
                    FROM tuning_job
                    WHERE %(only)s::text[] IS NULL OR workload_key = ANY (%(only)s)
                ) j
                CROSS JOIN LATERAL (
                    SELECT max(l.created_at) AS closed_at FROM lease l
                    WHERE l.identity_id = %(identity)s::uuid AND l.job_id = j.id
                      AND l.device_class = %(class)s
                      AND l.complete AND NOT is_outdated(l.session_id)
                      AND (l.expires_at > now() OR l.answered AND (
                        EXISTS (
                          SELECT FROM ballot b
                          WHERE b.identity_id = l.identity_id AND b.workload_key = j.workload_key
                            AND b.device_class = l.device_class AND b.filed_at >= l.created_at)
                        OR NOT EXISTS (
                          SELECT FROM measurement m JOIN lease of ON of.id = m.lease_id
                          WHERE m.identity_id = l.identity_id AND m.device_class = l.device_class
                            AND of.job_id = j.id AND m.outcome = 'ok')))
                ) share
                WHERE j.target = %(target)s AND j.space = space_of(%(target)s, %(device_id)s)
                  AND j.state = 'planned' AND j.cancelled_at IS NULL
                  AND (SELECT w.measured FROM workload w WHERE w.key = j.workload_key)
                  AND (j.priority < %(below)s OR j.priority = %(below)s AND j.id > %(after)s)
                  AND (%(only)s::text[] IS NOT NULL OR is_for(%(application)s, j.workload_key))
                  AND %(class)s NOT IN (SELECT skipping(j.workload_key))
                  AND (share.closed_at IS NULL OR EXISTS (
                    SELECT FROM zoo_entry e
                    CROSS JOIN LATERAL unnest(
                        e.contenders || CASE WHEN e.published_at > share.closed_at
                                             THEN ARRAY[e.candidate_id] END) AS asked (id)
                    WHERE e.workload_key = j.workload_key AND e.device_class = %(class)s
                      AND e.state <> 'retired'
                      AND NOT EXISTS (
                        SELECT FROM measurement m JOIN lease l ON l.id = m.lease_id
                        WHERE m.identity_id = %(identity)s::uuid AND m.device_class = %(class)s
                          AND m.candidate_id = asked.id AND NOT is_outdated(l.session_id))))
            )
            SELECT open.id AS job_id, open.priority, open.workload_key,
                   reference.candidate_id AS reference_id, open.closed_at IS NOT NULL AS closed
            FROM open CROSS JOIN LATERAL default_kernel(open.workload_key, %(class)s) AS reference
            WHERE reference.job_id = open.id AND reference.state = 'compiled'
            ORDER BY open.priority DESC, open.id LIMIT 1
        """,
        parameters={
            **_of(identity_id, device_class),
            "below": after[0],
            "after": after[1],
            "application": application_id,
            "only": workload_keys,
        },
        row=LendableJobRow,
    )


def prospects(
    job_id: int, identity_id: UUID, device_class: DeviceClass, *, cover: int, believed_s: float
) -> Query[ProspectRow]:
    """The candidates of a job that the device's features can run, that did not fail to compile and
    are not denied to the class, in the order in which the class is to measure them.

    A report of a stranger counts once it is verified, and holds its candidate like an open lease
    until its first verdict is due; the operator's agents are believed before.

    Under a newer major version of its engine an identity measures the champion, the default kernel
    and those of its own ballot again; what else it has measured stands.
    """
    return Query(
        sql="""
            WITH job AS (
                -- The job and its workload.
                SELECT id, workload_key FROM tuning_job WHERE id = %(job_id)s
            ), space AS MATERIALIZED (
                -- Candidates that did not fail to compile, need what the class has and are not
                -- denied to it.
                SELECT c.candidate_id, c.state, p.ordinal,
                       array_position(o.candidate_ids, c.candidate_id) AS place
                FROM space_point p
                JOIN candidate c ON c.candidate_id = p.candidate_id
                LEFT JOIN evaluation_order o
                  ON o.job_id = p.job_id AND o.device_class = %(class)s
                WHERE p.job_id = %(job_id)s AND c.state <> 'failed'
                  AND c.requires <@ %(features)s::text[]
                  AND NOT EXISTS (
                    SELECT FROM denied d
                    WHERE d.artifact_sha256 = c.artifact_sha256
                      AND d.device_class = %(class)s AND d.denied)
            ), champion AS MATERIALIZED (
                -- What the class is served now, and what contends with it.
                SELECT e.candidate_id, e.contenders FROM job JOIN zoo_entry e
                  ON e.workload_key = job.workload_key
                 AND e.device_class = %(class)s AND e.state <> 'retired'
            ), outdated AS MATERIALIZED (
                -- This identity's sessions under an older major version of its engine.
                SELECT s.id FROM agent_session s
                WHERE s.identity_id = %(identity)s::uuid AND s.device_class = %(class)s
                  AND is_outdated(s.id)
            ), repeated AS MATERIALIZED (
                -- Candidates to measure again under a newer version: the champion and its own
                -- ballot.
                SELECT candidate_id FROM champion
                UNION
                SELECT unnest(b.candidate_ids) FROM job JOIN ballot b
                  ON b.workload_key = job.workload_key
                 AND b.device_class = %(class)s AND b.identity_id = %(identity)s::uuid
            ), stale AS MATERIALIZED (
                -- Its measurements of these, and of the reference, that were made under the older
                -- version.
                SELECT m.lease_id, m.candidate_id
                FROM lease l JOIN measurement m ON m.lease_id = l.id
                WHERE l.identity_id = %(identity)s::uuid AND l.device_class = %(class)s
                  AND l.session_id IN (SELECT id FROM outdated)
                  AND (m.candidate_id = l.reference_id
                       OR m.candidate_id IN (SELECT candidate_id FROM repeated))
            ), own AS MATERIALIZED (
                -- All that this identity has measured of the space; what is stale does not stand.
                SELECT m.candidate_id, m.identity_id, m.verdict, m.retries, m.relative_time,
                       relative_preparation(m),
                       (m.lease_id, m.candidate_id) NOT IN (
                           SELECT lease_id, candidate_id FROM stale) AS stands
                FROM space JOIN measurement m ON m.candidate_id = space.candidate_id
                 AND m.identity_id = %(identity)s::uuid AND m.device_class = %(class)s
            ), reported AS MATERIALIZED (
                -- Its reports that stand, and the latest ones of others for each candidate.
                SELECT candidate_id, identity_id, verdict, retries, relative_time,
                       relative_preparation
                FROM own WHERE stands
                UNION ALL
                SELECT space.candidate_id, m.identity_id, m.verdict, m.retries, m.relative_time,
                       m.relative_preparation
                FROM space CROSS JOIN LATERAL (
                    SELECT identity_id, verdict, retries, relative_time,
                           relative_preparation(measurement)
                    FROM measurement
                    WHERE candidate_id = space.candidate_id AND device_class = %(class)s
                      AND lease_id > 0
                    ORDER BY created_at DESC LIMIT %(recent)s
                ) m
                WHERE m.identity_id <> %(identity)s::uuid
            ), borrowing AS MATERIALIZED (
                -- Candidates of open leases that are not reported; believed while the agent shows
                -- itself.
                SELECT i.candidate_id, l.identity_id,
                       coalesce((SELECT max(m.created_at) FROM measurement m
                                 WHERE m.lease_id = l.id), l.created_at)
                       > now() - make_interval(secs => %(believed_s)s) AS believed
                FROM lease l JOIN lease_item i ON i.lease_id = l.id
                WHERE l.device_class = %(class)s AND l.job_id = %(job_id)s
                  AND NOT l.answered AND l.expires_at > now()
                  AND NOT EXISTS (
                    SELECT FROM measurement m
                    WHERE m.lease_id = l.id AND m.candidate_id = i.candidate_id)
            ), voice AS MATERIALIZED (
                -- Whose reports and leases these are: strangers of one network are one, each agent
                -- of the operator is one.
                SELECT id, operated, id = %(identity)s::uuid AS own,
                       CASE WHEN operated THEN id::text ELSE network END AS name
                FROM identity
                WHERE id IN (SELECT identity_id FROM reported
                             UNION SELECT identity_id FROM borrowing)
            ), found AS MATERIALIZED (
                -- What each voice found of a candidate: its best time, and whether that counts, is
                -- known to others or still waits for a verdict.
                SELECT r.candidate_id, v.name,
                       bool_or(v.own) AS mine,
                       min(r.relative_time) FILTER (
                           WHERE r.verdict = 'verified'
                              OR r.verdict = 'pending' AND (v.own OR v.operated)
                       ) AS relative_time,
                       min(r.relative_preparation) FILTER (
                           WHERE r.verdict = 'verified'
                              OR r.verdict = 'pending' AND (v.own OR v.operated)
                       ) AS relative_preparation,
                       coalesce(bool_or(
                           r.verdict = 'verified' OR r.verdict = 'pending' AND v.operated
                       ) FILTER (WHERE NOT v.own), false) AS counts,
                       coalesce(bool_or(
                           r.verdict = 'verified' AND r.relative_time IS NOT NULL
                       ) FILTER (WHERE NOT v.own), false) AS known,
                       coalesce(bool_or(
                           r.verdict = 'pending' AND r.retries = 0
                       ) FILTER (WHERE NOT v.own), false) AS waits
                FROM reported r JOIN voice v ON v.id = r.identity_id
                GROUP BY r.candidate_id, v.name
            ), known AS (
                -- What all voices found: how many count, and a time that too few cannot lower.
                SELECT candidate_id, bool_or(mine) AS mine,
                       count(*) FILTER (WHERE counts) AS answered,
                       count(*) FILTER (WHERE known) AS known_by,
                       CASE WHEN count(relative_time) < 2 * %(cover)s THEN min(relative_time)
                            ELSE percentile_disc(%(credible)s)
                                 WITHIN GROUP (ORDER BY relative_time) END AS relative_time,
                       min(relative_time) AS fastest,
                       CASE WHEN count(relative_preparation) < 2 * %(cover)s
                            THEN min(relative_preparation)
                            ELSE percentile_disc(%(credible)s)
                                 WITHIN GROUP (ORDER BY relative_preparation)
                            END AS relative_preparation
                FROM found GROUP BY candidate_id
            ), holding AS (
                -- Who holds a candidate: by a believed lease, or by a report that waits for its
                -- verdict.
                SELECT b.candidate_id, v.name, v.own
                FROM borrowing b JOIN voice v ON v.id = b.identity_id
                WHERE v.own OR b.believed
                UNION
                SELECT candidate_id, name, false FROM found WHERE waits
            ), borrowed AS (
                -- How many others hold a candidate without having answered, and whether this
                -- identity does.
                SELECT h.candidate_id, bool_or(h.own) AS held,
                       count(DISTINCT h.name) FILTER (
                           WHERE NOT h.own AND f.counts IS NOT TRUE) AS lent
                FROM holding h
                LEFT JOIN found f ON f.candidate_id = h.candidate_id AND f.name = h.name
                GROUP BY h.candidate_id
            ), served AS (
                -- What other classes of this device, or of similar ones, are served: 0 is this
                -- device.
                SELECT e.candidate_id,
                       min((theirs.device_id <> ours.device_id)::integer) AS nearness
                FROM job
                JOIN zoo_entry e ON e.workload_key = job.workload_key
                JOIN device theirs ON theirs.device_id = e.device_id
                JOIN device ours ON ours.device_id = %(device_id)s
                WHERE e.state <> 'retired' AND e.device_class <> %(class)s
                  AND CASE WHEN theirs.device_id = ours.device_id THEN true
                           WHEN %(target)s = 'wasm'
                           THEN theirs.cpu_architecture = nullif(ours.cpu_architecture, '')
                           ELSE (theirs.gpu_vendor, theirs.gpu_architecture)
                                = (nullif(ours.gpu_vendor, ''), ours.gpu_architecture) END
                GROUP BY e.candidate_id
            )
            SELECT space.candidate_id, space.state = 'compiled' AS compiled,
                   coalesce(known.mine, false) AS mine,
                   NOT coalesce(known.mine, false)
                   AND space.candidate_id IN (SELECT candidate_id FROM own) AS again,
                   coalesce(borrowed.held, false) AS held,
                   coalesce(known.answered, 0) AS answered, coalesce(borrowed.lent, 0) AS lent,
                   coalesce(known.known_by, 0) AS known_by, known.relative_time, known.fastest,
                   known.relative_preparation,
                   champion.candidate_id IS NOT NULL AS champion,
                   EXISTS (SELECT FROM champion c
                           WHERE space.candidate_id = ANY (c.contenders)) AS contender,
                   served.nearness AS similar
            FROM space
            LEFT JOIN known ON known.candidate_id = space.candidate_id
            LEFT JOIN borrowed ON borrowed.candidate_id = space.candidate_id
            LEFT JOIN served ON served.candidate_id = space.candidate_id
            LEFT JOIN champion ON champion.candidate_id = space.candidate_id
            ORDER BY space.place, space.ordinal
        """,
        parameters={
            **_of(identity_id, device_class),
            "job_id": job_id,
            "recent": RECENT,
            "believed_s": believed_s,
            "cover": cover,
            "credible": CREDIBLE,
        },
        row=ProspectRow,
    )


def _of(identity_id: UUID, device_class: DeviceClass) -> dict[str, Parameter]:
    return {
        "identity": str(identity_id),
        "class": device_class,
        "target": device_class.target.kind,
        "device_id": device_class.device_id,
        "features": list(device_class.target.features),
    }
