"""The zoo: which kernel is served for a key, and its history."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import msgspec

from kernelzoo.domain.candidate import Setting
from kernelzoo.domain.device import DeviceClass
from kernelzoo.domain.workload import WorkloadKey
from kernelzoo.domain.zoo import EntryState, Evidence
from kernelzoo.store.candidates import CandidateIdRow, KernelRow
from kernelzoo.store.query import Parameter, Query, Statement


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveEntry:
    """The entry that stands for a key: provisional or confirmed."""

    version: int
    candidate_id: str
    state: str


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionRow:
    """An entry of a key, live or retired. `served`: pages were given it while it lived."""

    workload_key: WorkloadKey
    version: int
    candidate_id: str
    state: str
    ballots: int
    served: bool
    published_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferedCost:
    """A kernel is to be offered with these costs, as `OfferedRow` tells it of the compiled one."""

    candidate_id: str
    runs: int | None
    compile_ns: float
    optimise_ns: float
    pack_ns: float
    first_run_ns: float
    run_ns: float
    voters: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferedRow:
    """A kernel that is the best for up to `runs` runs, and its costs, which so many `voters` told.
    That of the entry is for all more: its `runs` are null.
    """

    runs: int | None
    compile_ns: float
    optimise_ns: float
    pack_ns: float
    first_run_ns: float
    run_ns: float
    voters: int
    kernel: KernelRow


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedRow:
    """A page gets this for one workload; the columns of the entry are null without one.

    `by_runs` are rows of `OfferedRow`, those for few runs first, that of the entry last.

    `best_ns` is of the served kernel on this class: the median over `identities` of their best.
    """

    workload_key: WorkloadKey
    flops: int
    fallback_kernel: dict[str, object] | None
    entry_kernel: dict[str, object] | None
    state: str | None
    version: int | None
    ballots: int | None
    weight: int | None
    total_weight: int | None
    relative_time: float | None
    engines: list[dict[str, object]] | None
    rank: int | None
    spread: float | None
    best_ns: float | None
    identities: int
    by_runs: list[dict[str, object]]

    def fallback(self) -> KernelRow | None:
        return msgspec.convert(self.fallback_kernel, KernelRow | None)

    def winner(self) -> KernelRow | None:
        return msgspec.convert(self.entry_kernel, KernelRow | None)

    def offered(self) -> list[OfferedRow]:
        return msgspec.convert(self.by_runs, list[OfferedRow])


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryRow:
    workload_key: WorkloadKey
    flops: int
    device_class: str
    version: int
    state: str
    published_at: datetime
    candidate_id: str
    target: str
    config: dict[str, Setting]
    sha256: str
    requires: list[str]
    ballots: int
    weight: int
    total_weight: int
    relative_time: float
    engines: list[dict[str, object]]
    rank: int | None
    spread: float | None
    reason: str
    contenders: list[str]
    final: bool
    best_ns: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveCountRow:
    entries: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """An entry stands here in the list of all."""

    published_at: datetime
    workload_key: WorkloadKey
    device_class: str


def live_entry(workload_key: str, device_class: DeviceClass) -> Query[LiveEntry]:
    return Query(
        sql="""
            SELECT version, candidate_id, state FROM zoo_entry
            WHERE workload_key = %(key)s AND device_class = %(class)s AND state <> 'retired'
        """,
        parameters={"key": workload_key, "class": device_class},
        row=LiveEntry,
    )


def confirmed_elsewhere(workload_key: str, device_class: DeviceClass) -> Query[CandidateIdRow]:
    """Names what other classes that speak for this one serve."""
    return Query(
        sql="""
            SELECT DISTINCT candidate_id FROM zoo_entry
            WHERE workload_key = %(key)s AND device_class <> %(class)s
              AND state = 'confirmed' AND speaks
        """,
        parameters={"key": workload_key, "class": device_class},
        row=CandidateIdRow,
    )


def default_of(workload_key: str, device_class: DeviceClass) -> Query[CandidateIdRow]:
    """The kernel that relative times of this key are relative to."""
    return Query(
        sql="""
            SELECT candidate_id
            FROM default_kernel(%(key)s, %(class)s)
        """,
        parameters={"key": workload_key, "class": device_class},
        row=CandidateIdRow,
    )


def retire(workload_key: str, device_class: DeviceClass) -> Statement:
    """Also forgets what was offered beside the entry."""
    return Statement(
        sql="""
            WITH offered AS (
                DELETE FROM kernel_by_runs
                WHERE workload_key = %(key)s AND device_class = %(class)s
            )
            UPDATE zoo_entry SET state = 'retired', aggregated = false
            WHERE workload_key = %(key)s AND device_class = %(class)s AND state <> 'retired'
        """,
        parameters={"key": workload_key, "class": device_class},
    )


def publish(
    workload_key: str,
    device_class: DeviceClass,
    candidate_id: str,
    state: EntryState,
    evidence: Evidence,
    reason: str = "",
) -> Statement:
    """The next version of a key. The live one must have been retired before. `reason` is for what
    no vote decided.
    """
    return Statement(
        sql="""
            INSERT INTO zoo_entry (workload_key, device_class, version, candidate_id, state,
                                   ballots, weight, total_weight, relative_time, engines,
                                   reason, served, contenders, final, rank, spread)
            SELECT %(key)s, %(class)s, coalesce(max(version), 0) + 1, %(candidate)s, %(state)s,
                   %(ballots)s, %(weight)s, %(total_weight)s, %(relative_time)s,
                   %(engines)s::jsonb, %(reason)s, %(state)s::text = 'confirmed',
                   %(contenders)s::text[], %(final)s, %(rank)s, %(spread)s
            FROM zoo_entry WHERE workload_key = %(key)s AND device_class = %(class)s
        """,
        parameters={
            "key": workload_key,
            "class": device_class,
            "candidate": candidate_id,
            "state": state,
            "reason": reason,
            **_evidence(evidence),
        },
    )


def update_evidence(workload_key: str, device_class: DeviceClass, evidence: Evidence) -> Statement:
    return Statement(
        sql="""
            UPDATE zoo_entry SET ballots = %(ballots)s, weight = %(weight)s,
                   total_weight = %(total_weight)s, relative_time = %(relative_time)s,
                   engines = %(engines)s::jsonb, contenders = %(contenders)s::text[],
                   final = %(final)s, rank = %(rank)s, spread = %(spread)s, aggregated = false
            WHERE workload_key = %(key)s AND device_class = %(class)s AND state <> 'retired'
        """,
        parameters={
            "key": workload_key,
            "class": device_class,
            **_evidence(evidence),
        },
    )


def _evidence(evidence: Evidence) -> dict[str, Parameter]:
    return {
        "ballots": evidence.ballots,
        "weight": evidence.weight,
        "total_weight": evidence.total_weight,
        "relative_time": evidence.relative_time,
        "engines": msgspec.json.encode(evidence.engines).decode(),
        "contenders": list(evidence.contenders),
        "final": evidence.final,
        "rank": evidence.rank,
        "spread": evidence.spread,
    }


def served(workload_keys: list[str], device_class: DeviceClass) -> Query[ServedRow]:
    """One row for each workload, in order: its confirmed entry, if any, and its default kernel."""
    return Query(
        sql="""
            SELECT w.key AS workload_key, w.flops,
                   f.described AS fallback_kernel, k.described AS entry_kernel,
                   e.state, e.version, e.ballots, e.weight, e.total_weight, e.relative_time,
                   e.engines, e.rank, e.spread,
                   t.best_ns, t.identities, coalesce(o.by_runs, '[]') AS by_runs
            FROM unnest(%(keys)s::text[]) WITH ORDINALITY AS asked (key, position)
            JOIN workload w ON w.key = asked.key
            LEFT JOIN LATERAL (
                SELECT kernel.candidate_id, to_jsonb(kernel) AS described
                FROM default_kernel(w.key, %(class)s) d
                JOIN kernel ON kernel.candidate_id = d.candidate_id
            ) f ON true
            LEFT JOIN zoo_entry e ON e.workload_key = w.key AND e.device_class = %(class)s
                AND e.state = 'confirmed' AND NOT is_denied(e.candidate_id, %(class)s)
            LEFT JOIN LATERAL (
                SELECT to_jsonb(kernel) AS described FROM kernel
                WHERE kernel.candidate_id = e.candidate_id
            ) k ON true
            CROSS JOIN LATERAL
                kernel_time(coalesce(e.candidate_id, f.candidate_id), %(class)s) t
            LEFT JOIN LATERAL (
                SELECT jsonb_agg(to_jsonb(r) || jsonb_build_object('kernel', to_jsonb(kernel))
                                 ORDER BY r.runs) AS by_runs
                FROM kernel_by_runs r JOIN kernel ON kernel.candidate_id = r.candidate_id
                WHERE r.workload_key = e.workload_key AND r.device_class = e.device_class
                  AND r.version = e.version AND NOT is_denied(r.candidate_id, %(class)s)
            ) o ON true
            ORDER BY asked.position
        """,
        parameters={"keys": workload_keys, "class": device_class},
        row=ServedRow,
    )


def offer(
    workload_key: str, device_class: DeviceClass, version: int, offered: Sequence[OfferedCost]
) -> Statement:
    """Puts these in the place of what is offered beside an entry. Rows that stay are changed, not
    made anew: each that comes or goes makes what is served newer.
    """
    columns = ("runs", "compile_ns", "optimise_ns", "pack_ns", "first_run_ns", "run_ns", "voters")
    return Statement(
        sql="""
            WITH told AS (
                SELECT * FROM unnest(
                    %(candidates)s::text[], %(runs)s::integer[], %(compile_ns)s::double precision[],
                    %(optimise_ns)s::double precision[], %(pack_ns)s::double precision[],
                    %(first_run_ns)s::double precision[], %(run_ns)s::double precision[],
                    %(voters)s::integer[])
                    AS t (candidate_id, runs, compile_ns, optimise_ns, pack_ns, first_run_ns,
                          run_ns, voters)
            ), gone AS (
                DELETE FROM kernel_by_runs
                WHERE workload_key = %(key)s AND device_class = %(class)s
                  AND (version <> %(version)s
                       OR candidate_id NOT IN (SELECT candidate_id FROM told))
            )
            INSERT INTO kernel_by_runs (workload_key, device_class, version, candidate_id, runs,
                                        compile_ns, optimise_ns, pack_ns, first_run_ns, run_ns,
                                        voters)
            SELECT %(key)s, %(class)s, %(version)s, told.* FROM told
            ON CONFLICT (workload_key, device_class, version, candidate_id) DO UPDATE SET
                runs = EXCLUDED.runs, compile_ns = EXCLUDED.compile_ns,
                optimise_ns = EXCLUDED.optimise_ns, pack_ns = EXCLUDED.pack_ns,
                first_run_ns = EXCLUDED.first_run_ns, run_ns = EXCLUDED.run_ns,
                voters = EXCLUDED.voters
        """,
        parameters={
            "key": workload_key,
            "class": device_class,
            "version": version,
            "candidates": [each.candidate_id for each in offered],
            **{name: [getattr(each, name) for each in offered] for name in columns},
        },
    )


def offered(workload_key: str, device_class: DeviceClass) -> Query[OfferedCost]:
    """Lists what is offered beside the live entry, for the fewest runs first; its own is the
    last."""
    return Query(
        sql="""
            SELECT r.candidate_id, r.runs, r.compile_ns, r.optimise_ns, r.pack_ns, r.first_run_ns,
                   r.run_ns, r.voters
            FROM kernel_by_runs r
            WHERE r.workload_key = %(key)s AND r.device_class = %(class)s
              AND NOT is_denied(r.candidate_id, r.device_class)
            ORDER BY r.runs
        """,
        parameters={"key": workload_key, "class": device_class},
        row=OfferedCost,
    )


def versions(device_class: DeviceClass) -> Query[VersionRow]:
    """Every entry that there ever was for the keys of a class, in order."""
    return Query(
        sql="""
            SELECT workload_key, version, candidate_id, state, ballots, served, published_at
            FROM zoo_entry WHERE device_class = %(class)s ORDER BY workload_key, version
        """,
        parameters={"class": device_class},
        row=VersionRow,
    )


def live(workload_key: str | None = None) -> Query[LiveCountRow]:
    """Counts the live entries, of one workload or of all."""
    return Query(
        sql="""
            SELECT count(*) AS entries FROM zoo_entry e
            WHERE e.state <> 'retired' AND (%(key)s::text IS NULL OR e.workload_key = %(key)s)
        """,
        parameters={"key": workload_key},
        row=LiveCountRow,
    )


def entries(
    workload_key: str | None = None, behind: Listed | None = None, limit: int = 1000
) -> Query[EntryRow]:
    """Live entries, the latest first, from the one `behind` another on. `best_ns`: median over
    identities of their best sample, as of the last count of ballots.
    """
    return Query(
        sql="""
            SELECT e.workload_key, w.flops, e.device_class, e.version, e.state, e.published_at,
                   e.candidate_id, a.target, c.config, a.sha256,
                   c.manifest -> 'requires' AS requires, e.ballots, e.weight,
                   e.total_weight, e.relative_time, e.engines, e.rank, e.spread, e.reason,
                   e.contenders, e.final, t.best_ns
            FROM (
                SELECT * FROM zoo_entry e
                WHERE e.state <> 'retired' AND (%(key)s::text IS NULL OR e.workload_key = %(key)s)
                  AND (e.published_at, e.workload_key, e.device_class)
                      < (%(at)s::timestamptz, %(last_key)s::text, %(last_class)s::text)
                ORDER BY e.published_at DESC, e.workload_key DESC, e.device_class DESC
                LIMIT %(limit)s
            ) e
            JOIN workload w ON w.key = e.workload_key
            JOIN candidate c ON c.candidate_id = e.candidate_id
            JOIN artifact a ON a.sha256 = c.artifact_sha256
            LEFT JOIN coverage t
                ON t.workload_key = e.workload_key AND t.device_class = e.device_class
            ORDER BY e.published_at DESC, e.workload_key DESC, e.device_class DESC
        """,
        parameters={
            "key": workload_key,
            "at": behind.published_at.isoformat() if behind else "infinity",
            "last_key": behind.workload_key if behind else "",
            "last_class": behind.device_class if behind else "",
            "limit": limit,
        },
        row=EntryRow,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class DeniedEntry:
    """A live entry that its class must not run any more."""

    version: int
    state: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlierEntry:
    candidate_id: str
    ballots: int
    weight: int
    total_weight: int
    relative_time: float

    @property
    def evidence(self) -> Evidence:
        return Evidence(
            ballots=self.ballots,
            weight=self.weight,
            total_weight=self.total_weight,
            relative_time=self.relative_time,
        )


NO_EVIDENCE = Evidence(ballots=0, weight=0, total_weight=0, relative_time=1.0)
"""Evidence for the default kernel, which nobody needs to vote for."""


def denied_entry(workload_key: str, device_class: DeviceClass) -> Query[DeniedEntry]:
    """The live entry of a key, if it is denied."""
    return Query(
        sql="""
            SELECT e.version, e.state, concat_ws(': ', nullif(d.stage, ''), d.evidence) AS reason
            FROM zoo_entry e
            JOIN candidate c ON c.candidate_id = e.candidate_id
            JOIN denied d ON d.artifact_sha256 = c.artifact_sha256
                AND d.device_class = e.device_class AND d.denied
            WHERE e.workload_key = %(key)s AND e.device_class = %(class)s
              AND e.state <> 'retired'
        """,
        parameters={"key": workload_key, "class": device_class},
        row=DeniedEntry,
    )


def earlier(workload_key: str, device_class: DeviceClass) -> Query[EarlierEntry]:
    """The latest version of a key that pages were served and that is not denied."""
    return Query(
        sql="""
            SELECT candidate_id, ballots, weight, total_weight, relative_time FROM zoo_entry
            WHERE workload_key = %(key)s AND device_class = %(class)s AND served
              AND NOT is_denied(candidate_id, device_class)
            ORDER BY version DESC LIMIT 1
        """,
        parameters={"key": workload_key, "class": device_class},
        row=EarlierEntry,
    )
