"""Devices, the identities behind them, and their sessions."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

import msgspec

from kernelzoo.domain.device import DeviceClass, Engine, GpuProbeLevels, Hardware, ProbeLevels
from kernelzoo.domain.gpu import gpu_model
from kernelzoo.store.query import Query, Statement

ENGINES = 8
"""Kept of a class: the last that were new. A page says what it likes of its engine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IdentityRow:
    id: UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownIdentityRow:
    """`renewed_at`: when it was last given a token."""

    id: UUID
    operated: bool
    renewed_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimedRow:
    """Device classes of strangers within a day, besides one."""

    by_identity: int
    by_network: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionRow:
    """`operated`: the identity was opened with the operator's key; `attested`: it has shown what
    lets it speak for other classes than its own.
    """

    id: int
    operated: bool
    attested: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceRow:
    """`total` counts devices without the limit."""

    device_id: str
    cpu_architecture: str
    logical_cores: int
    gpu_vendor: str
    gpu_architecture: str
    gpu_model: str
    engines: list[str]
    core_gflops: float | None
    gpu_gflops: float | None
    agents: int
    measurements: int
    last_seen_at: datetime
    total: int


def known_identity(identity_id: UUID) -> Query[KnownIdentityRow]:
    """No row for one that was erased. Until the transaction ends it cannot be."""
    return Query(
        sql="""
            SELECT id, operated, renewed_at FROM identity
            WHERE id = %(id)s::uuid AND erased_at IS NULL FOR KEY SHARE
        """,
        parameters={"id": str(identity_id)},
        row=KnownIdentityRow,
    )


def lock_network(network: str) -> Statement:
    """Lets all that is counted against the network take turns until the transaction ends."""
    return Statement(
        sql="SELECT pg_advisory_xact_lock(hashtextextended(%(network)s, 2))",
        parameters={"network": network},
    )


def new_identity(network: str, *, operated: bool, daily_cap: int) -> Query[IdentityRow]:
    """No row when `daily_cap` strangers that are younger than 24 hours had a session in this
    network, wherever they were born, or were erased since. Lock the network before.
    """
    return Query(
        sql="""
            INSERT INTO identity (network, operated)
            SELECT %(network)s, %(operated)s
            WHERE %(operated)s OR (
                SELECT count(DISTINCT s.identity_id)
                FROM agent_session s JOIN identity i ON i.id = s.identity_id
                WHERE s.network = %(network)s AND s.created_at > now() - interval '1 day'
                  AND i.created_at > now() - interval '1 day' AND NOT i.operated
            ) + (
                SELECT count(*) FROM identity e
                WHERE e.network = %(network)s AND e.created_at > now() - interval '1 day'
                  AND e.erased_at IS NOT NULL AND NOT e.operated
            ) < %(daily_cap)s
            RETURNING id
        """,
        parameters={"network": network, "operated": operated, "daily_cap": daily_cap},
        row=IdentityRow,
    )


def see_device(hardware: Hardware) -> Statement:
    """The model of its GPU follows the table of models, which may have grown since."""
    return Statement(
        sql="""
            INSERT INTO device
                (device_id, cpu_architecture, logical_cores, gpu_vendor, gpu_architecture,
                 gpu_model)
            VALUES (%(id)s, %(cpu)s, %(cores)s, %(vendor)s, %(architecture)s, %(model)s)
            ON CONFLICT (device_id) DO UPDATE SET gpu_model = EXCLUDED.gpu_model
            WHERE device.gpu_model <> EXCLUDED.gpu_model
        """,
        parameters={
            "id": hardware.device_id,
            "cpu": hardware.cpu_architecture,
            "cores": hardware.logical_cores,
            "vendor": hardware.gpu_vendor,
            "architecture": hardware.gpu_architecture,
            "model": gpu_model(hardware.gpu_vendor, hardware.gpu_architecture).name,
        },
    )


def hardware(device_id: str) -> Query[Hardware]:
    """No row for a device that never opened a session."""
    return Query(
        sql="""
            SELECT cpu_architecture, logical_cores, gpu_vendor, gpu_architecture
            FROM device WHERE device_id = %(id)s
        """,
        parameters={"id": device_id},
        row=Hardware,
    )


def claimed_classes(
    identity_id: UUID, network: str, device_class: DeviceClass
) -> Query[ClaimedRow]:
    """Besides `device_class`. Lock the network before."""
    return Query(
        sql="""
            SELECT count(DISTINCT s.device_class) FILTER (WHERE i.id = %(identity)s::uuid)
                       AS by_identity,
                   count(DISTINCT s.device_class) FILTER (WHERE s.network = %(network)s)
                       AS by_network
            FROM agent_session s JOIN identity i ON i.id = s.identity_id AND NOT i.operated
            WHERE (s.identity_id = %(identity)s::uuid OR s.network = %(network)s)
              AND s.created_at > now() - interval '1 day' AND s.device_class <> %(class)s
        """,
        parameters={
            "identity": str(identity_id),
            "network": network,
            "class": device_class,
        },
        row=ClaimedRow,
    )


def open_session(
    identity_id: UUID,
    device_class: DeviceClass,
    engine: Engine,
    *,
    network: str,
    peak_gflops: float,
    isolated: bool,
    probe: ProbeLevels | GpuProbeLevels | None = None,
    application_id: int | None = None,
) -> Query[SessionRow]:
    """From now on the identity counts as one of `network`. Counts the session for its device and
    class as well; the device must have been seen.
    """
    return Query(
        sql="""
            WITH before AS (
                SELECT count(*) AS sessions,
                       count(*) FILTER (WHERE device_class = %(device_class)s) AS of_class
                FROM agent_session
                WHERE identity_id = %(identity)s::uuid AND device_id = %(device_id)s
            ), moved AS (
                UPDATE identity SET network = %(network)s, renewed_at = now()
                WHERE id = %(identity)s::uuid RETURNING operated, attested
            ), opened AS (
                INSERT INTO agent_session
                    (identity_id, device_id, device_class, engine_name, engine_version,
                     peak_gflops, isolated, probe, application_id, network)
                VALUES (%(identity)s::uuid, %(device_id)s, %(device_class)s, %(engine)s,
                        %(version)s, %(peak_gflops)s, %(isolated)s, %(probe)s::jsonb,
                        %(application)s, %(network)s)
                RETURNING id
            ), device_counted AS (
                UPDATE device SET last_seen_at = now(),
                       agents = agents + (before.sessions = 0)::integer
                FROM before WHERE device_id = %(device_id)s
            ), class_counted AS (
                INSERT INTO device_class AS c
                    (device_class, device_id, engines, peak_gflops, identities)
                SELECT %(device_class)s, %(device_id)s, ARRAY[%(seen)s], %(peak_gflops)s,
                       (before.of_class = 0)::integer
                FROM before
                ON CONFLICT (device_class) DO UPDATE SET
                    engines = CASE WHEN %(seen)s = ANY (c.engines) THEN c.engines
                                   ELSE (ARRAY[%(seen)s] || c.engines)[1:%(engines)s] END,
                    peak_gflops = greatest(c.peak_gflops, EXCLUDED.peak_gflops),
                    identities = c.identities + EXCLUDED.identities, last_seen_at = now()
            )
            SELECT opened.id, moved.operated, moved.attested FROM opened CROSS JOIN moved
        """,
        parameters={
            "identity": str(identity_id),
            "network": network,
            "device_id": device_class.device_id,
            "device_class": device_class,
            "engine": engine.name,
            "version": engine.version,
            "seen": f"{engine.name} {engine.version.partition('.')[0]}".strip(),
            "engines": ENGINES,
            "peak_gflops": peak_gflops,
            "isolated": isolated,
            "probe": msgspec.json.encode(probe).decode() if probe else None,
            "application": application_id,
        },
        row=SessionRow,
    )


def attest(identity_id: UUID) -> Statement:
    return Statement(
        sql="UPDATE identity SET attested = true WHERE id = %(id)s::uuid AND NOT attested",
        parameters={"id": str(identity_id)},
    )


def count_judged(device_class: DeviceClass, measurements: int) -> Statement:
    """The last statement of its transaction: verdicts of one class wait for each other here."""
    return Statement(
        sql="""
            UPDATE device_class SET measurements = measurements + %(measurements)s
            WHERE device_class = %(class)s
        """,
        parameters={"class": device_class, "measurements": measurements},
    )


def devices(limit: int, offset: int) -> Query[DeviceRow]:
    """Devices that ran an agent, the latest first; of counts, so that nothing is scanned."""
    return Query(
        sql="""
            SELECT d.device_id, d.cpu_architecture, d.logical_cores, d.gpu_vendor,
                   d.gpu_architecture, d.gpu_model, d.agents, d.last_seen_at,
                   c.engines, c.core_gflops, c.gpu_gflops, c.measurements, d.total
            FROM (
                SELECT *, count(*) OVER () AS total FROM device WHERE agents > 0
                ORDER BY last_seen_at DESC, device_id LIMIT %(limit)s OFFSET %(offset)s
            ) d
            CROSS JOIN LATERAL (
                SELECT ARRAY(
                           SELECT DISTINCT unnest(e.engines) AS engine FROM device_class e
                           WHERE e.device_id = d.device_id ORDER BY engine) AS engines,
                       max(peak_gflops) FILTER (WHERE device_class LIKE '%%:wasm%%')
                           AS core_gflops,
                       max(peak_gflops) FILTER (WHERE device_class LIKE '%%:webgpu%%')
                           AS gpu_gflops,
                       coalesce(sum(measurements), 0)::bigint AS measurements
                FROM device_class WHERE device_id = d.device_id
            ) c
            ORDER BY d.last_seen_at DESC, d.device_id
        """,
        parameters={"limit": limit, "offset": offset},
        row=DeviceRow,
    )
