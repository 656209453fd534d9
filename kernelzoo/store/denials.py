"""Kernels that a class of devices is never served, and the failures that say so."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from kernelzoo.domain.device import DeviceClass
from kernelzoo.domain.measurement import Outcome
from kernelzoo.domain.trust import Trust
from kernelzoo.domain.workload import WorkloadKey
from kernelzoo.store.ballots import KeyRow
from kernelzoo.store.candidates import CandidateIdRow
from kernelzoo.store.query import Query, Statement

LATELY = 64
"""Measurements of a candidate on a class that tell how many networks it runs for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArtifactRow:
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DeniedArtifactRow:
    """`serial`: how far what the zoo serves has come."""

    sha256: str
    device_class: str
    serial: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SuspectRow:
    """An artifact fails for `failed` networks of strangers at most, and runs for `ran` at least;
    `operated`: an agent of the operator has seen it fail.
    """

    sha256: str
    operated: bool
    failed: int
    ran: int


@dataclass(frozen=True, slots=True, kw_only=True)
class VoiceRow:
    """An identity, or the pages of a network, last saw this of an artifact; '' where it ran."""

    sha256: str
    network: str
    stage: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceVoiceRow(VoiceRow):
    """A voice that was heard on any class of a device, about what is denied on `device_class`."""

    device_class: DeviceClass
    device_wide: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredByRow:
    """Measurements of these count for a class: networks of strangers, agents of the operator."""

    networks: int
    operated: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplaceableRow:
    replaceable: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class DeniedRow:
    sha256: str
    device_class: str
    denied: bool
    stage: str
    evidence: str
    operated: bool
    decided_at: datetime
    candidate_ids: list[str]
    workload_keys: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class NotedRow:
    """`known`: the artifact is a kernel of the workload. `allowed`: the network is below a cap.
    `changed`: the network had not said so before.
    """

    known: bool
    allowed: bool
    changed: bool


def suspects(workload_key: str, device_class: DeviceClass, trust: Trust) -> Query[SuspectRow]:
    """Lists artifacts of a key that are not decided yet, and that may have failed on the class for
    more networks than they run for, or for an agent of the operator. It reads failures, and the
    latest successes alone: what failed once in a while ran ten thousand times.
    """
    return Query(
        sql="""
            WITH failing AS (
                SELECT c.artifact_sha256 AS sha256, c.candidate_id
                FROM candidate c
                WHERE c.workload_key = %(key)s AND c.target = target_of(%(class)s)
                  AND EXISTS (
                    SELECT FROM measurement m
                    WHERE m.candidate_id = c.candidate_id AND m.device_class = %(class)s
                      AND m.outcome <> 'ok' AND m.verdict = 'verified')
            ), undecided AS MATERIALIZED (
                SELECT sha256 FROM (
                    SELECT sha256 FROM failing
                    UNION
                    SELECT artifact_sha256 FROM page_failure
                    WHERE workload_key = %(key)s AND device_class = %(class)s
                ) f
                WHERE NOT EXISTS (SELECT FROM denied d WHERE d.artifact_sha256 = f.sha256
                                  AND d.device_class = %(class)s)
            ), candidates AS MATERIALIZED (
                SELECT u.sha256, c.candidate_id
                FROM undecided u JOIN candidate c ON c.artifact_sha256 = u.sha256
            ), failures AS MATERIALIZED (
                SELECT DISTINCT c.sha256, m.identity_id
                FROM candidates c JOIN measurement m ON m.candidate_id = c.candidate_id
                    AND m.device_class = %(class)s
                    AND m.outcome <> 'ok' AND m.verdict = 'verified'
            ), successes AS MATERIALIZED (
                SELECT DISTINCT c.sha256, m.identity_id
                FROM candidates c CROSS JOIN LATERAL (
                    SELECT identity_id, lease_id, outcome FROM measurement
                    WHERE candidate_id = c.candidate_id AND device_class = %(class)s
                      AND verdict = 'verified' AND lease_id > 0
                    ORDER BY created_at DESC LIMIT %(lately)s) m
                WHERE m.outcome = 'ok' AND (is_trusted(%(trust)s, false, NULL) OR EXISTS (
                    SELECT FROM lease l JOIN agent_session s ON s.id = l.session_id
                    WHERE l.id = m.lease_id AND is_trusted(%(trust)s, false, s.application_id)))
            ), runner AS MATERIALIZED (
                SELECT id, network FROM identity
                WHERE id IN (SELECT identity_id FROM successes)
                  AND NOT operated AND valid_in_row > 0
            ), ran AS MATERIALIZED (
                SELECT DISTINCT s.sha256, r.network
                FROM successes s JOIN runner r ON r.id = s.identity_id
            ), doubtful AS MATERIALIZED (
                -- Of a kernel that runs for more than it fails for, nobody is looked up for whom it
                -- failed: that may be months ago, and their rows are in no memory. Each of them has
                -- at most one of the networks for which it ran.
                SELECT u.sha256 FROM undecided u
                WHERE 2 * ((SELECT count(*) FROM failures f WHERE f.sha256 = u.sha256)
                           + (SELECT count(*) FROM page_failure p
                              WHERE p.artifact_sha256 = u.sha256 AND p.device_class = %(class)s))
                      > (SELECT count(*) FROM ran WHERE ran.sha256 = u.sha256)
                   OR EXISTS (
                    -- An array, or the index is asked for each failure.
                    SELECT FROM failures f WHERE f.sha256 = u.sha256
                      AND f.identity_id = ANY (ARRAY(SELECT id FROM identity WHERE operated)))
            ), failed AS MATERIALIZED (
                SELECT f.sha256, CASE WHEN i.operated THEN '' ELSE i.network END AS network
                FROM doubtful d JOIN failures f ON f.sha256 = d.sha256
                JOIN identity i ON i.id = f.identity_id
                UNION
                SELECT d.sha256, p.network
                FROM doubtful d JOIN page_failure p
                  ON p.artifact_sha256 = d.sha256 AND p.device_class = %(class)s
            ), unanimous AS (
                SELECT sha256, count(*) AS networks FROM (
                    SELECT sha256, network FROM ran EXCEPT SELECT sha256, network FROM failed
                ) r GROUP BY sha256
            )
            SELECT d.sha256, coalesce(f.operated, false) AS operated,
                   coalesce(f.networks, 0) AS failed,
                   coalesce(u.networks, 0) AS ran
            FROM doubtful d LEFT JOIN (
                SELECT sha256, bool_or(network = '') AS operated,
                       count(*) FILTER (WHERE network <> '') AS networks
                FROM failed GROUP BY sha256
            ) f ON f.sha256 = d.sha256
            LEFT JOIN unanimous u ON u.sha256 = d.sha256
        """,
        parameters={
            "key": workload_key,
            "class": device_class,
            "trust": trust,
            "lately": LATELY,
        },
        row=SuspectRow,
    )


def voices(sha256s: Sequence[str], device_class: DeviceClass, trust: Trust) -> Query[VoiceRow]:
    """Reads what identities that the zoo trusts saw of artifacts on a class; by artifact, those of
    older identities first.

    A failure counts where the identity has timed another kernel of the class, so that its device
    works; what quarantine or a wrong output took out of the count does not. The reference of a
    lease ran wherever anything was timed beside it.
    """
    return Query(
        sql="""
            WITH undecided AS (
                SELECT unnest(%(sha256s)s::text[]) AS sha256
            ), tries AS MATERIALIZED (
                -- What each last saw, before anything is looked up of whom it is of. No session is
                -- looked up where strangers are trusted in any.
                SELECT DISTINCT ON (u.sha256, m.identity_id)
                       u.sha256, m.identity_id, m.outcome
                FROM undecided u
                JOIN candidate c ON c.artifact_sha256 = u.sha256
                CROSS JOIN LATERAL tried(c.candidate_id, %(class)s) m
                WHERE is_trusted(%(trust)s, false, NULL)
                   OR EXISTS (
                    SELECT FROM lease l JOIN agent_session s ON s.id = l.session_id
                    JOIN identity i ON i.id = l.identity_id
                    WHERE l.id = m.lease_id
                      AND is_trusted(%(trust)s, i.operated, s.application_id))
                ORDER BY u.sha256, m.identity_id, m.created_at DESC
            ), voice AS MATERIALIZED (
                SELECT i.id, CASE WHEN i.operated THEN '' ELSE i.network END AS network,
                       i.created_at AS since
                FROM identity i
                WHERE i.id IN (SELECT identity_id FROM tries)
                  AND (i.operated OR i.valid_in_row > 0)
                  AND EXISTS (SELECT FROM measurement w
                              WHERE w.identity_id = i.id AND w.device_class = %(class)s
                                AND w.outcome = 'ok' AND w.verdict = 'verified')
            ), agents AS (
                SELECT t.sha256, v.network,
                       CASE WHEN t.outcome = 'ok' THEN '' ELSE t.outcome END AS stage, v.since
                FROM tries t JOIN voice v ON v.id = t.identity_id
            ), pages AS (
                SELECT u.sha256, f.network, f.stage, f.reported_at AS since
                FROM undecided u JOIN page_failure f
                  ON f.artifact_sha256 = u.sha256 AND f.device_class = %(class)s
                 AND trust_covers(%(trust)s, f.trust)
            )
            SELECT sha256, network, stage
            FROM (SELECT * FROM agents UNION ALL SELECT * FROM pages) voice
            ORDER BY sha256, since
        """,
        parameters={"sha256s": list(sha256s), "class": device_class, "trust": trust},
        row=VoiceRow,
    )


def artifacts_named(prefix: str, limit: int) -> Query[ArtifactRow]:
    """Artifacts whose hash begins so; 'g' sorts behind every digit of one."""
    return Query(
        sql="""
            SELECT sha256 FROM artifact
            WHERE sha256 >= %(prefix)s AND sha256 < %(prefix)s || 'g'
            ORDER BY sha256 LIMIT %(limit)s
        """,
        parameters={"prefix": prefix, "limit": limit},
        row=ArtifactRow,
    )


def denied_on_device(workload_key: str, device_class: DeviceClass) -> Query[ArtifactRow]:
    """Lists artifacts of a key that failures, not the operator, denied to a class of this
    device."""
    return Query(
        sql="""
            SELECT DISTINCT d.artifact_sha256 AS sha256
            FROM denied d JOIN candidate c ON c.artifact_sha256 = d.artifact_sha256
            WHERE d.denied AND NOT d.operated AND d.device_id = device_id_of(%(class)s)
              AND c.workload_key = %(key)s
        """,
        parameters={"key": workload_key, "class": device_class},
        row=ArtifactRow,
    )


def device_voices(
    sha256s: list[str], device_class: DeviceClass, trust: Trust
) -> Query[DeviceVoiceRow]:
    """For each of these artifacts, and each class of this device to which failures, not the
    operator, denied it: what agents of all classes of the device that the zoo trusts last saw of
    it, and what pages of the class say. By artifact and class, those of older identities first.
    """
    return Query(
        sql="""
            WITH counted AS MATERIALIZED (
                SELECT d.artifact_sha256 AS sha256, d.device_class, d.device_wide
                FROM denied d
                WHERE d.denied AND NOT d.operated
                  AND d.device_id = device_id_of(%(class)s)
                  AND d.artifact_sha256 = ANY (%(sha256s)s)
            ), tries AS MATERIALIZED (
                -- What each last saw, before anything is looked up of whom it is of.
                SELECT DISTINCT ON (u.sha256, u.device_class, k.device_class, m.identity_id)
                       u.sha256, u.device_class, u.device_wide, k.device_class AS on_class,
                       m.identity_id, m.outcome, m.created_at
                FROM counted u
                JOIN candidate c ON c.artifact_sha256 = u.sha256
                JOIN device_class k ON k.device_id = device_id_of(%(class)s)
                CROSS JOIN LATERAL tried(c.candidate_id, k.device_class) m
                WHERE is_trusted(%(trust)s, false, NULL)
                   OR EXISTS (
                    SELECT FROM lease l JOIN agent_session s ON s.id = l.session_id
                    JOIN identity i ON i.id = l.identity_id
                    WHERE l.id = m.lease_id
                      AND is_trusted(%(trust)s, i.operated, s.application_id))
                ORDER BY u.sha256, u.device_class, k.device_class, m.identity_id,
                         m.created_at DESC
            ), agents AS (
                SELECT DISTINCT ON (t.sha256, t.device_class, i.id)
                       t.sha256, t.device_class, t.device_wide,
                       CASE WHEN i.operated THEN '' ELSE i.network END AS network,
                       CASE WHEN t.outcome = 'ok' THEN '' ELSE t.outcome END AS stage,
                       i.created_at AS since
                FROM tries t
                JOIN identity i ON i.id = t.identity_id
                WHERE (i.operated OR i.valid_in_row > 0)
                  AND EXISTS (SELECT FROM measurement w
                              WHERE w.identity_id = i.id AND w.device_class = t.on_class
                                AND w.outcome = 'ok' AND w.verdict = 'verified')
                ORDER BY t.sha256, t.device_class, i.id, t.created_at DESC
            ), pages AS (
                SELECT u.sha256, u.device_class, u.device_wide, f.network, f.stage,
                       f.reported_at AS since
                FROM counted u JOIN page_failure f
                  ON f.artifact_sha256 = u.sha256 AND f.device_class = u.device_class
                 AND trust_covers(%(trust)s, f.trust)
            )
            SELECT sha256, network, stage, device_class, device_wide
            FROM (SELECT * FROM agents UNION ALL SELECT * FROM pages) voice
            ORDER BY sha256, device_class, since
        """,
        parameters={"sha256s": sha256s, "class": device_class, "trust": trust},
        row=DeviceVoiceRow,
    )


def set_device_wide(sha256: str, device_class: DeviceClass, *, device_wide: bool) -> Statement:
    """Has a denial begin or cease to hold for the whole device; where it begins, that is decided
    now, so that `decided_lately` has it."""
    return Statement(
        sql="""
            UPDATE denied
            SET device_wide = %(device_wide)s,
                decided_at = CASE WHEN %(device_wide)s AND NOT device_wide THEN now()
                                  ELSE decided_at END
            WHERE artifact_sha256 = %(sha256)s AND device_class = %(class)s
        """,
        parameters={"sha256": sha256, "class": device_class, "device_wide": device_wide},
    )


def measured_by(device_class: DeviceClass, trust: Trust) -> Query[MeasuredByRow]:
    """Counts those whom the zoo trusts, by the first thousand of their sessions of the class."""
    return Query(
        sql="""
            WITH came AS (
                SELECT DISTINCT identity_id FROM (
                    SELECT s.identity_id
                    FROM agent_session s JOIN identity i ON i.id = s.identity_id
                    WHERE s.device_class = %(class)s
                      AND is_trusted(%(trust)s, i.operated, s.application_id)
                    ORDER BY s.created_at LIMIT 1000) session
            )
            SELECT count(DISTINCT i.network) FILTER (WHERE NOT i.operated) AS networks,
                   count(*) FILTER (WHERE i.operated) AS operated
            FROM came JOIN identity i ON i.id = came.identity_id
            WHERE (i.operated OR i.valid_in_row > 0)
              AND EXISTS (SELECT FROM measurement m
                          WHERE m.identity_id = i.id AND m.device_class = %(class)s
                            AND m.outcome = 'ok' AND m.verdict = 'verified')
        """,
        parameters={"class": device_class, "trust": trust},
        row=MeasuredByRow,
    )


def replaceable(sha256: str, device_class: DeviceClass) -> Query[ReplaceableRow]:
    """Asks whether the class can be given another kernel for every workload of the artifact."""
    return Query(
        sql="""
            SELECT coalesce(bool_and(EXISTS (
                SELECT FROM servable(
                    ARRAY[w.workload_key], %(class)s,
                    space_of(w.target, device_id_of(%(class)s))) s
                JOIN candidate c ON c.candidate_id = s.candidate_id
                WHERE c.artifact_sha256 <> %(sha256)s)), false) AS replaceable
            FROM (SELECT DISTINCT workload_key, target FROM candidate
                  WHERE artifact_sha256 = %(sha256)s) w
        """,
        parameters={"sha256": sha256, "class": device_class},
        row=ReplaceableRow,
    )


def decide(
    sha256: str,
    device_class: DeviceClass,
    *,
    denied: bool,
    stage: str,
    evidence: str,
    operated: bool,
) -> Statement:
    """The operator's decision replaces any; the crowd's stands only where there is none."""
    return Statement(
        sql="""
            INSERT INTO denied (artifact_sha256, device_class, denied, stage, evidence, operated,
                                device_wide)
            SELECT a.sha256, %(class)s, %(denied)s, %(stage)s, %(evidence)s, %(operated)s,
                   %(denied)s AND %(operated)s
            FROM artifact a WHERE a.sha256 = %(sha256)s
            ON CONFLICT (artifact_sha256, device_class) DO UPDATE SET
                denied = EXCLUDED.denied, stage = EXCLUDED.stage, evidence = EXCLUDED.evidence,
                operated = true, device_wide = EXCLUDED.device_wide, decided_at = now()
            WHERE EXCLUDED.operated
        """,
        parameters={
            "sha256": sha256,
            "class": device_class,
            "denied": denied,
            "stage": stage,
            "evidence": evidence,
            "operated": operated,
        },
    )


def decisions(
    workload_key: str | None = None, device_class: DeviceClass | None = None
) -> Query[DeniedRow]:
    """Lists what is denied, and what the operator allowed; the latest first. Of a key, or of
    all."""
    return Query(
        sql="""
            SELECT d.artifact_sha256 AS sha256, d.device_class, d.denied, d.stage, d.evidence,
                   d.operated, d.decided_at,
                   array_agg(c.candidate_id ORDER BY c.candidate_id) AS candidate_ids,
                   array_agg(DISTINCT c.workload_key) AS workload_keys
            FROM denied d JOIN candidate c ON c.artifact_sha256 = d.artifact_sha256
            WHERE %(class)s::text IS NULL OR d.device_class = %(class)s
            GROUP BY d.artifact_sha256, d.device_class
            HAVING %(key)s::text IS NULL OR %(key)s = ANY (array_agg(c.workload_key))
            ORDER BY d.decided_at DESC LIMIT 1000
        """,
        parameters={"key": workload_key, "class": device_class},
        row=DeniedRow,
    )


def decided_lately(seconds: float, limit: int) -> Query[DeniedArtifactRow]:
    """Lists what was denied within so many seconds, the latest first."""
    return Query(
        sql="""
            SELECT d.artifact_sha256 AS sha256, d.device_class, p.serial
            FROM denied d, publication p
            WHERE d.denied AND d.decided_at > now() - make_interval(secs => %(seconds)s)
            ORDER BY d.decided_at DESC LIMIT %(limit)s
        """,
        parameters={"seconds": seconds, "limit": limit},
        row=DeniedArtifactRow,
    )


def of_classes(limit: int) -> Query[DeniedArtifactRow]:
    """Lists what is denied to each class, the latest first; one row of '' where nothing is."""
    return Query(
        sql="""
            SELECT coalesce(d.artifact_sha256, '') AS sha256,
                   coalesce(d.device_class, '') AS device_class, p.serial
            FROM publication p LEFT JOIN denied d ON d.denied
            ORDER BY d.decided_at DESC LIMIT %(limit)s
        """,
        parameters={"limit": limit},
        row=DeniedArtifactRow,
    )


def denied_of(workload_key: str, device_class: DeviceClass) -> Query[CandidateIdRow]:
    return Query(
        sql="""
            SELECT c.candidate_id FROM denied d
            JOIN candidate c ON c.artifact_sha256 = d.artifact_sha256
            WHERE d.device_class = %(class)s AND d.denied AND c.workload_key = %(key)s
        """,
        parameters={"key": workload_key, "class": device_class},
        row=CandidateIdRow,
    )


def keys_of(sha256: str, device_class: DeviceClass) -> Query[KeyRow]:
    """Keys of the class to whose workloads the artifact belongs, live or not."""
    return Query(
        sql="""
            SELECT DISTINCT workload_key, %(class)s AS device_class
            FROM candidate WHERE artifact_sha256 = %(sha256)s
        """,
        parameters={"sha256": sha256, "class": device_class},
        row=KeyRow,
    )


def note_failure(
    workload_key: WorkloadKey,
    device_class: DeviceClass,
    sha256: str,
    network: str,
    stage: Outcome,
    detail: str,
    *,
    trust: Trust,
    daily_cap: int,
) -> Query[NotedRow]:
    """Notes what a page says, taken under `trust`. Told again, it counts anew where it was taken
    under a wider trust before.
    """
    return Query(
        sql="""
            WITH known AS (
                SELECT artifact_sha256 FROM candidate
                WHERE artifact_sha256 = %(sha256)s AND workload_key = %(key)s LIMIT 1
            ), capped AS (
                SELECT count(*) >= %(daily_cap)s AS full FROM page_failure
                WHERE network = %(network)s AND reported_at > now() - interval '1 day'
            ), noted AS (
                INSERT INTO page_failure AS f
                    (artifact_sha256, device_class, network, workload_key, stage, detail, trust)
                SELECT artifact_sha256, %(class)s, %(network)s, %(key)s, %(stage)s, %(detail)s,
                       %(trust)s
                FROM known, capped WHERE NOT capped.full
                ON CONFLICT (artifact_sha256, device_class, network) DO UPDATE SET
                    trust = EXCLUDED.trust, tallied = false
                WHERE NOT trust_covers(EXCLUDED.trust, f.trust)
                RETURNING artifact_sha256
            )
            SELECT EXISTS (SELECT FROM known) AS known, NOT capped.full AS allowed,
                   EXISTS (SELECT FROM noted) AS changed
            FROM capped
        """,
        parameters={
            "key": workload_key,
            "class": device_class,
            "sha256": sha256,
            "network": network,
            "stage": stage,
            "detail": detail,
            "trust": trust,
            "daily_cap": daily_cap,
        },
        row=NotedRow,
    )


def heard(workload_key: str, device_class: DeviceClass) -> Statement:
    """Marks the pages' failures of a key as counted; run it before `voices`."""
    return Statement(
        sql="""
            UPDATE page_failure SET tallied = true
            WHERE workload_key = %(key)s AND device_class = %(class)s AND NOT tallied
        """,
        parameters={"key": workload_key, "class": device_class},
    )


def requeue_waiting(stalled_s: float) -> Query[KeyRow]:
    """Keys with failures of pages that nobody counted yet, and keys whose live entry is denied."""
    return Query(
        sql="""
            WITH requeued AS (
                UPDATE page_failure SET requeued_at = now()
                WHERE NOT tallied AND requeued_at < now() - make_interval(secs => %(stalled_s)s)
                RETURNING workload_key, device_class
            )
            SELECT workload_key, device_class FROM requeued
            UNION
            SELECT e.workload_key, e.device_class
            FROM denied d
            JOIN candidate c ON c.artifact_sha256 = d.artifact_sha256
            -- Each key's by itself: to join them PostgreSQL reads every entry that there is.
            CROSS JOIN LATERAL (
                SELECT e.workload_key, e.device_class, e.candidate_id FROM zoo_entry e
                WHERE e.workload_key = c.workload_key AND e.device_class = d.device_class
                  AND e.state <> 'retired' LIMIT 1
            ) e
            WHERE d.denied AND e.candidate_id = c.candidate_id
        """,
        parameters={"stalled_s": stalled_s},
        row=KeyRow,
    )


def device_lost(workload_key: WorkloadKey, device_class: DeviceClass, why: str) -> Statement:
    """Notes that a device was lost at a workload: after two of them their class skips it.

    Nothing is stored of a workload that nobody registered.
    """
    return Statement(
        sql="""
            INSERT INTO lost_device (device_class, workload_key, why)
            SELECT %(class)s, w.key, %(why)s FROM workload w WHERE w.key = %(key)s
        """,
        parameters={"class": device_class, "key": workload_key, "why": why},
    )


def forget_losses(workload_key: WorkloadKey, device_class: DeviceClass) -> Statement:
    """Forgets the losses of a class at a workload: the operator has mended what was wrong."""
    return Statement(
        sql="DELETE FROM lost_device WHERE workload_key = %(key)s AND device_class = %(class)s",
        parameters={"class": device_class, "key": workload_key},
    )
