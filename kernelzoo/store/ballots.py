"""Ballots: the latest of each identity for each key."""

from dataclasses import dataclass
from uuid import UUID

from kernelzoo.domain.ballot import Ballot, BallotLine, CastBallot
from kernelzoo.domain.device import DeviceClass, Engine
from kernelzoo.domain.trust import Trust
from kernelzoo.domain.workload import WorkloadKey
from kernelzoo.store.query import Query, Statement


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyRow:
    workload_key: WorkloadKey
    device_class: DeviceClass


@dataclass(frozen=True, slots=True, kw_only=True)
class UnsettledRow:
    rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BallotRow:
    """Only the lines whose candidate this identity measured with a verified output."""

    identity_id: UUID
    network: str
    valid_in_row: int
    candidate_ids: list[str]
    relative_times: list[float]
    measured_ids: list[str]
    measured_times: list[float]
    engine_name: str
    engine_version: str
    in_tokens: bool
    paired: bool

    def to_cast(self) -> CastBallot:
        lines = _lines(self.candidate_ids, self.relative_times)
        return CastBallot(
            network=self.network,
            valid_in_row=self.valid_in_row,
            ballot=Ballot(
                identity=str(self.identity_id),
                lines=lines,
                in_tokens=self.in_tokens,
                paired=self.paired,
            ),
            measured=_lines(self.measured_ids, self.measured_times),
            engine=Engine(name=self.engine_name, version=self.engine_version),
        )


def _lines(candidate_ids: list[str], relative_times: list[float]) -> tuple[BallotLine, ...]:
    pairs = zip(candidate_ids, relative_times, strict=True)
    return tuple(BallotLine(candidate_id=c, relative_time=t) for c, t in pairs)


def file(workload_key: str, device_class: DeviceClass, ballot: Ballot) -> Statement:
    """Replaces the identity's earlier ballot for the key. No row is written where nothing changes:
    the ballot is the same, and of the same session, which tells the engine's version. It is looked
    for first, as a conflict locks its row, which is then written to the disk before the answer. Nor
    does one of first measurements replace one of paired rounds that the same session has filed.
    """
    return Statement(
        sql="""
            INSERT INTO ballot AS b
                (identity_id, workload_key, device_class, candidate_ids, relative_times,
                 in_tokens, paired)
            SELECT %(identity)s::uuid, %(key)s, %(device_class)s, %(candidates)s::text[],
                   %(times)s::double precision[], %(in_tokens)s::boolean, %(paired)s::boolean
            WHERE NOT EXISTS (
                SELECT FROM ballot earlier
                WHERE (earlier.identity_id, earlier.workload_key, earlier.device_class)
                      = (%(identity)s::uuid, %(key)s, %(device_class)s)
                  AND (earlier.paired > %(paired)s::boolean OR
                       (earlier.candidate_ids, earlier.relative_times, earlier.in_tokens,
                        earlier.paired)
                       = (%(candidates)s::text[], %(times)s::double precision[],
                          %(in_tokens)s::boolean, %(paired)s::boolean))
                  AND NOT EXISTS (
                    SELECT FROM agent_session s
                    WHERE s.identity_id = earlier.identity_id
                      AND s.device_class = earlier.device_class
                      AND s.created_at > earlier.filed_at))
            ON CONFLICT (identity_id, workload_key, device_class) DO UPDATE SET
                candidate_ids = EXCLUDED.candidate_ids,
                relative_times = EXCLUDED.relative_times,
                in_tokens = EXCLUDED.in_tokens,
                paired = EXCLUDED.paired,
                filed_at = now(), requeued_at = now(), tallied = false
            WHERE b.paired <= EXCLUDED.paired
              AND (b.candidate_ids, b.relative_times, b.in_tokens, b.paired)
                  IS DISTINCT FROM (EXCLUDED.candidate_ids, EXCLUDED.relative_times,
                                    EXCLUDED.in_tokens, EXCLUDED.paired)
               OR EXISTS (SELECT FROM agent_session s
                          WHERE s.identity_id = b.identity_id AND s.device_class = b.device_class
                            AND s.created_at > b.filed_at)
        """,
        parameters={
            "identity": ballot.identity,
            "key": workload_key,
            "device_class": device_class,
            "candidates": [line.candidate_id for line in ballot.lines],
            "times": [line.relative_time for line in ballot.lines],
            "in_tokens": ballot.in_tokens,
            "paired": ballot.paired,
        },
    )


def countable(workload_key: str, device_class: DeviceClass, trust: Trust) -> Query[BallotRow]:
    """Ballots of a key by those whom the zoo trusts now, those of older identities first; lines not
    verified are left out, and so are measurements in another major version of the engine than the
    ballot was cast in.
    """
    return Query(
        sql="""
            WITH filed AS MATERIALIZED (
                SELECT b.*, s.engine_name, s.engine_version, s.application_id,
                       engine_major(s.engine_version) AS major
                FROM ballot b
                CROSS JOIN LATERAL (
                    SELECT engine_name, engine_version, application_id FROM agent_session s
                    WHERE s.identity_id = b.identity_id AND s.device_class = b.device_class
                      AND s.created_at <= b.filed_at
                    ORDER BY s.id DESC LIMIT 1
                ) s
                WHERE b.workload_key = %(key)s AND b.device_class = %(class)s
            ), elsewhere AS MATERIALIZED (
                SELECT l.id
                FROM filed
                JOIN agent_session s ON s.identity_id = filed.identity_id
                 AND s.device_class = filed.device_class
                 AND (s.engine_name, engine_major(s.engine_version))
                     <> (filed.engine_name, filed.major)
                JOIN lease l ON l.identity_id = s.identity_id AND l.session_id = s.id
            ), verified AS (
                SELECT m.identity_id, m.candidate_id, min(m.relative_time) AS time
                FROM filed
                JOIN measurement m ON m.identity_id = filed.identity_id
                WHERE m.device_class = %(class)s
                  AND m.candidate_id = ANY (ARRAY(
                    SELECT candidate_id FROM candidate WHERE workload_key = %(key)s))
                  AND m.outcome = 'ok' AND m.verdict = 'verified'
                  AND m.lease_id NOT IN (SELECT id FROM elsewhere)
                GROUP BY m.identity_id, m.candidate_id
            ), measured AS MATERIALIZED (
                SELECT identity_id, array_agg(candidate_id) AS ids, array_agg(time) AS times
                FROM verified GROUP BY identity_id
            )
            SELECT b.identity_id, CASE WHEN i.operated THEN '' ELSE i.network END AS network,
                   i.valid_in_row, line.candidate_ids, line.relative_times,
                   measured.ids AS measured_ids, measured.times AS measured_times,
                   b.engine_name, b.engine_version, b.in_tokens, b.paired
            FROM filed b
            JOIN identity i ON i.id = b.identity_id
             AND is_trusted(%(trust)s, i.operated, b.application_id)
            JOIN measured ON measured.identity_id = b.identity_id
            CROSS JOIN LATERAL (
                SELECT array_agg(candidate_id ORDER BY rank) AS candidate_ids,
                       array_agg(relative_time ORDER BY rank) AS relative_times
                FROM unnest(b.candidate_ids, b.relative_times) WITH ORDINALITY
                    AS line (candidate_id, relative_time, rank)
                WHERE candidate_id = ANY (measured.ids)
            ) line
            WHERE line.candidate_ids IS NOT NULL
            ORDER BY i.created_at, i.id
        """,
        parameters={"key": workload_key, "class": device_class, "trust": trust},
        row=BallotRow,
    )


def tallied(workload_key: str, device_class: DeviceClass) -> Statement:
    """Marks the ballots of a key as counted. Run it before reading them: what is filed between
    the two is then counted, and counted again by its own job, rather than not at all.
    """
    return Statement(
        sql="""
            UPDATE ballot SET tallied = true
            WHERE workload_key = %(key)s AND device_class = %(class)s AND NOT tallied
        """,
        parameters={"key": workload_key, "class": device_class},
    )


def unsettled() -> Query[UnsettledRow]:
    """Counts what is still to be verified or tallied."""
    return Query(
        sql="""
            SELECT (SELECT count(*) FROM measurement WHERE verdict = 'pending')
                 + (SELECT count(*) FROM ballot WHERE NOT tallied)
                 + (SELECT count(*) FROM page_failure WHERE NOT tallied) AS rows
        """,
        parameters={},
        row=UnsettledRow,
    )


def requeue_waiting(stalled_s: float) -> Query[KeyRow]:
    """Keys with ballots that wait too long to be counted; marks them as requeued."""
    return Query(
        sql="""
            WITH requeued AS (
                UPDATE ballot SET requeued_at = now()
                WHERE NOT tallied AND requeued_at < now() - make_interval(secs => %(stalled_s)s)
                RETURNING workload_key, device_class
            )
            SELECT DISTINCT workload_key, device_class FROM requeued
        """,
        parameters={"stalled_s": stalled_s},
        row=KeyRow,
    )
