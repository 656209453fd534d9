"""The times of kernels on a class, as those tell them whom the zoo believes."""

from collections.abc import Sequence
from dataclasses import dataclass

from kernelzoo.domain.device import DeviceClass
from kernelzoo.domain.trust import Trust
from kernelzoo.store.query import Query

LATELY = 64
"""Measurements of a kernel on a class that are read, as `kernel_time` of the schema does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VoiceTimeRow:
    """The best time of a kernel that an agent of the operator, or a network of strangers, told."""

    candidate_id: str
    operated: bool
    best_ns: float


def by_voice(
    candidate_ids: Sequence[str], device_class: DeviceClass, trust: Trust, *, strangers: bool
) -> Query[VoiceTimeRow]:
    """Reads the times of these kernels on a class. Identities of strangers have one voice for each
    network; without `strangers` each identity has one."""
    return Query(
        sql="""
            SELECT k.candidate_id, i.operated, min(m.best_ns) AS best_ns
            FROM unnest(%(ids)s::text[]) AS k (candidate_id)
            CROSS JOIN LATERAL (
                SELECT identity_id, lease_id, best_ns FROM measurement
                WHERE candidate_id = k.candidate_id AND device_class = %(class)s
                  AND outcome = 'ok' AND verdict = 'verified' AND lease_id > 0
                ORDER BY created_at DESC LIMIT %(lately)s
            ) m
            JOIN identity i ON i.id = m.identity_id
            WHERE is_trusted(%(trust)s, i.operated, NULL) OR EXISTS (
                SELECT FROM lease l JOIN agent_session s ON s.id = l.session_id
                WHERE l.id = m.lease_id AND is_trusted(%(trust)s, false, s.application_id))
            GROUP BY k.candidate_id, i.operated,
                     CASE WHEN i.operated OR NOT %(strangers)s THEN i.id::text ELSE i.network END
        """,
        parameters={
            "ids": list(candidate_ids),
            "class": device_class,
            "trust": trust,
            "strangers": strangers,
            "lately": LATELY,
        },
        row=VoiceTimeRow,
    )
