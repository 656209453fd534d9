"""Devices, the identities behind them, and their sessions."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

import msgspec

from kernelzoo.domain.device import DeviceClass, Engine, GpuProbeLevels, Hardware, ProbeLevels
from kernelzoo.domain.gpu import gpu_model
from kernelzoo.store.query import Query, Statement


@dataclass(frozen=True, slots=True, kw_only=True)
class IdentityRow:
    id: UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionRow:
    id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceRow:
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


def known_identity(identity_id: UUID) -> Query[IdentityRow]:
    return Query(
        sql="SELECT id FROM identity WHERE id = %(id)s::uuid",
        parameters={"id": str(identity_id)},
        row=IdentityRow,
    )


def new_identity(network: str, *, operated: bool, daily_cap: int) -> Query[IdentityRow]:
    """No row when strangers of this network were given `daily_cap` identities in 24 hours."""
    return Query(
        sql="""
            INSERT INTO identity (network, operated)
            SELECT %(network)s, %(operated)s
            WHERE %(operated)s OR (
                SELECT count(*) FROM identity
                WHERE network = %(network)s AND NOT operated
                  AND created_at > now() - interval '1 day'
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


def open_session(
    identity_id: UUID,
    device_class: DeviceClass,
    engine: Engine,
    *,
    peak_gflops: float,
    isolated: bool,
    probe: ProbeLevels | GpuProbeLevels | None = None,
    application_id: int | None = None,
) -> Query[SessionRow]:
    return Query(
        sql="""
            INSERT INTO agent_session
                (identity_id, device_id, device_class, engine_name, engine_version, peak_gflops,
                 isolated, probe, application_id)
            VALUES (%(identity)s::uuid, %(device_id)s, %(device_class)s, %(engine)s, %(version)s,
                    %(peak_gflops)s, %(isolated)s, %(probe)s::jsonb,
                    %(application)s)
            RETURNING id
        """,
        parameters={
            "identity": str(identity_id),
            "device_id": device_class.device_id,
            "device_class": str(device_class),
            "engine": engine.name,
            "version": engine.version,
            "peak_gflops": peak_gflops,
            "isolated": isolated,
            "probe": msgspec.json.encode(probe).decode() if probe else None,
            "application": application_id,
        },
        row=SessionRow,
    )


def devices() -> Query[DeviceRow]:
    """Devices that opened a session, the latest first."""
    return Query(
        sql="""
            SELECT d.device_id, d.cpu_architecture, d.logical_cores, d.gpu_vendor,
                   d.gpu_architecture, d.gpu_model,
                   array_agg(DISTINCT concat_ws(' ', s.engine_name, s.engine_version)) AS engines,
                   max(s.peak_gflops) FILTER (WHERE s.device_class LIKE '%%:wasm%%')
                       AS core_gflops,
                   max(s.peak_gflops) FILTER (WHERE s.device_class LIKE '%%:webgpu%%')
                       AS gpu_gflops,
                   count(DISTINCT s.identity_id) AS agents,
                   (SELECT count(*) FROM measurement m
                    WHERE split_part(m.device_class, ':', 1) = d.device_id) AS measurements,
                   max(s.created_at) AS last_seen_at
            FROM device d JOIN agent_session s ON s.device_id = d.device_id
            GROUP BY d.device_id ORDER BY last_seen_at DESC LIMIT 500
        """,
        row=DeviceRow,
    )
