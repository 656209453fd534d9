"""Models that compute wrong outputs on a class of devices with default kernels."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from kernelzoo.domain.device import DeviceClass
from kernelzoo.domain.precision import Precision
from kernelzoo.store.query import Query, Statement

MOST_VOICES = 10_000
"""Classes times networks that are kept of a plan; a stranger may name any class."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NotedRow:
    """`allowed`: the network is below its cap of a day."""

    allowed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class WrongModelRow:
    """A plan that `networks` found wrong on a class, since the first of them did."""

    dimensions: Mapping[str, int]
    f16: bool
    precision: Precision
    device_class: str
    networks: int
    outputs: list[str]
    since: datetime
    last_at: datetime


def note(
    plan_id: int, device_class: DeviceClass, network: str, output: str, *, daily_cap: int
) -> Query[NotedRow]:
    """Notes what a page says of a plan. Told again by its network, it is as old as before."""
    return Query(
        sql="""
            WITH room AS (
                SELECT (SELECT count(*) FROM wrong_output
                        WHERE network = %(network)s AND first_at > now() - interval '1 day')
                           < %(daily_cap)s AS allowed,
                       (SELECT count(*) FROM wrong_output WHERE plan_id = %(plan)s)
                           < %(most)s AS free
            ), noted AS (
                INSERT INTO wrong_output (plan_id, device_class, network, output)
                SELECT %(plan)s, %(class)s, %(network)s, %(output)s
                FROM room WHERE allowed AND free
                ON CONFLICT (plan_id, device_class, network) DO UPDATE SET
                    output = EXCLUDED.output, last_at = now()
            )
            SELECT allowed FROM room
        """,
        parameters={
            "plan": plan_id,
            "class": device_class,
            "network": network,
            "output": output,
            "daily_cap": daily_cap,
            "most": MOST_VOICES,
        },
        row=NotedRow,
    )


def forget_old(plan_id: int) -> Statement:
    """Forgets what nobody has said again for 30 days."""
    return Statement(
        sql="""
            DELETE FROM wrong_output
            WHERE plan_id = %(plan)s AND last_at < now() - interval '30 days'
        """,
        parameters={"plan": plan_id},
    )


def of_model(name: str, most: int) -> Query[WrongModelRow]:
    """The plans and classes of a model that most networks found wrong."""
    return Query(
        sql="""
            SELECT dimensions, f16, precision, device_class, networks, outputs, since, last_at
            FROM wrong_model WHERE model = %(name)s
            ORDER BY networks DESC, last_at DESC, device_class LIMIT %(most)s
        """,
        parameters={"name": name, "most": most},
        row=WrongModelRow,
    )
