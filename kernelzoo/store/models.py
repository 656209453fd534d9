"""Models: networks that pages run whole, their plans, and what their plans call.

Plans, weights and golden outputs are files, which the gateway keeps; rows name them by hash.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

import msgspec

from kernelzoo.domain.device import DeviceClass
from kernelzoo.domain.precision import Precision
from kernelzoo.domain.target import MEASURED, TargetKind
from kernelzoo.domain.workload import WorkloadKey
from kernelzoo.store.query import Query, Statement

LEAST_GAIN = 0.02
"""A workload whose served kernel is foretold to be the fastest: it is tuned last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredPlan:
    """A plan as it is registered. Without `weights_sha256` the weights are at `weights_url`. One
    with values of `f16` is for WebGPU alone, and stands beside one of f32. Plans of the same
    dimensions differ by their `precision`. `original_sha256` is the file that says which weights
    lie in the author's file, where there is one."""

    dimensions: Mapping[str, int]
    plan_sha256: str
    plan_bytes: int
    weights_sha256: str | None
    weights_bytes: int
    weights_url: str
    golden_sha256: str
    golden_bytes: int
    f16: bool = False
    precision: Precision = Precision.F32
    original_sha256: str | None = None
    original_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRow(StoredPlan):
    """`serial`: how far what the zoo serves had come before any other row was read."""

    id: int
    model: str
    source: str
    added_at: datetime
    serial: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanIdRow:
    id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CalledRow:
    workload_key: WorkloadKey
    calls: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRow:
    """`workloads` and `flops` of an inference of its first plan. A plan without a call has none of
    either; more than a bigint holds are as many as it holds."""

    name: str
    source: str
    added_at: datetime
    plans: int
    workloads: int
    flops: int
    weights_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OfGraphRow:
    """A model, and the hash of the weights of the file that it was imported from."""

    name: str
    source_weights: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HashRow:
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanCoverageRow:
    """A plan on a class of devices. `measured`: the share of its operations whose time is known,
    from which `elapsed_ns` of an inference follows; null where nothing is. `prepare_ns`: what
    precedes warm runs of its confirmed kernels, as far as it was told; null where nothing was.
    """

    dimensions: Mapping[str, int]
    precision: Precision
    device_class: str
    workloads: int
    confirmed: int
    provisional: int
    confirmed_flops: float | None
    loads: int
    elapsed_ns: float | None
    measured: float
    prepare_ns: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CallTimeRow:
    """A workload of a plan on a class, with what its calls take together."""

    workload_key: WorkloadKey
    calls: int
    flops: int
    state: str
    expected_ns: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AwaitedRow:
    """A job of a model whose space nobody has planned, or a default that is not compiled."""

    job_id: int | None
    candidate_id: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadinessRow:
    """A workload of a model on a target: `ready` where every device has a kernel of it. One that
    can have none is not, and has a `detail`."""

    workload_key: WorkloadKey
    target: TargetKind
    ready: bool
    detail: str


def lock() -> Statement:
    """Lets all who register or remove models take turns until the transaction ends: what one
    removes another may just have found.
    """
    return Statement(sql="SELECT pg_advisory_xact_lock(hashtextextended('models', 6))")


def put_model(name: str, source: str) -> Statement:
    return Statement(
        sql="INSERT INTO model (name, source) VALUES (%(name)s, %(source)s)",
        parameters={"name": name, "source": source},
    )


def put_source_hashes(name: str, graph: str, weights: str) -> Statement:
    return Statement(
        sql="""
            UPDATE model SET source_graph = %(graph)s, source_weights = %(weights)s
            WHERE name = %(name)s
        """,
        parameters={"name": name, "graph": graph, "weights": weights},
    )


def put_plan(model: str, position: int, plan: StoredPlan) -> Query[PlanIdRow]:
    return Query(
        sql="""
            INSERT INTO model_plan (model, position, dimensions, plan_sha256, plan_bytes,
                                    weights_sha256, weights_bytes, weights_url,
                                    golden_sha256, golden_bytes, f16, precision,
                                    original_sha256, original_bytes)
            VALUES (%(model)s, %(position)s, %(dimensions)s::jsonb, %(plan)s, %(plan_bytes)s,
                    %(weights)s, %(weights_bytes)s, %(weights_url)s, %(golden)s, %(golden_bytes)s,
                    %(f16)s, %(precision)s, %(original)s, %(original_bytes)s)
            RETURNING id
        """,
        parameters={
            "model": model,
            "position": position,
            "dimensions": msgspec.json.encode(dict(plan.dimensions)).decode(),
            "plan": plan.plan_sha256,
            "plan_bytes": plan.plan_bytes,
            "weights": plan.weights_sha256,
            "weights_bytes": plan.weights_bytes,
            "weights_url": plan.weights_url,
            "golden": plan.golden_sha256,
            "golden_bytes": plan.golden_bytes,
            "f16": plan.f16,
            "precision": plan.precision,
            "original": plan.original_sha256,
            "original_bytes": plan.original_bytes,
        },
        row=PlanIdRow,
    )


def put_calls(plan_id: int, calls: Mapping[str, int]) -> Statement:
    """`calls` of each workload, in the order of the plan's kernels."""
    return Statement(
        sql="""
            INSERT INTO model_workload (plan_id, position, workload_key, calls)
            SELECT %(plan)s, place - 1, key, calls
            FROM unnest(%(keys)s::text[], %(calls)s::integer[])
                WITH ORDINALITY AS called (key, calls, place)
        """,
        parameters={"plan": plan_id, "keys": list(calls), "calls": list(calls.values())},
    )


def remove(name: str) -> Statement:
    """Its workloads stay: what the crowd learned of them is everybody's."""
    return Statement(sql="DELETE FROM model WHERE name = %(name)s", parameters={"name": name})


def all_models() -> Query[ModelRow]:
    return Query(
        sql="""
            SELECT m.name, m.source, m.added_at,
                   (SELECT count(*) FROM model_plan p WHERE p.model = m.name) AS plans,
                   called.workloads, called.flops, p.weights_bytes
            FROM model m
            JOIN model_plan p ON p.model = m.name AND p.position = 0
            CROSS JOIN LATERAL (
                SELECT count(*) AS workloads,
                       least(coalesce(sum(c.calls::numeric * w.flops), 0),
                             9223372036854775807)::bigint AS flops
                FROM model_workload c JOIN workload w ON w.key = c.workload_key
                WHERE c.plan_id = p.id
            ) called
            ORDER BY m.name
        """,
        row=ModelRow,
    )


def plans(name: str) -> Query[PlanRow]:
    """Reads plans in the order in which they were registered."""
    return Query(
        sql="""
            SELECT p.id, p.model, m.source, m.added_at, p.dimensions, p.plan_sha256, p.plan_bytes,
                   p.weights_sha256, p.weights_bytes, p.weights_url, p.golden_sha256,
                   p.golden_bytes, p.f16, p.precision, p.original_sha256, p.original_bytes,
                   (SELECT serial FROM publication) AS serial
            FROM model m JOIN model_plan p ON p.model = m.name
            WHERE m.name = %(name)s ORDER BY p.position
        """,
        parameters={"name": name},
        row=PlanRow,
    )


def of_graph(graph: str, most: int) -> Query[OfGraphRow]:
    """Reads models that were imported from a graph, the first of them first."""
    return Query(
        sql="""
            SELECT name, source_weights FROM model WHERE source_graph = %(graph)s
            ORDER BY added_at, name LIMIT %(most)s
        """,
        parameters={"graph": graph, "most": most},
        row=OfGraphRow,
    )


def calls(plan_id: int) -> Query[CalledRow]:
    """Reads calls in the order of the plan's kernels."""
    return Query(
        sql="""
            SELECT workload_key, calls FROM model_workload
            WHERE plan_id = %(plan)s ORDER BY position
        """,
        parameters={"plan": plan_id},
        row=CalledRow,
    )


def files() -> Query[HashRow]:
    """The hashes of all files that models are made of."""
    return Query(
        sql="""
            SELECT DISTINCT sha256 FROM model_plan
            CROSS JOIN LATERAL unnest(
                ARRAY[plan_sha256, weights_sha256, original_sha256, golden_sha256]
            ) AS file (sha256)
            WHERE sha256 IS NOT NULL
        """,
        row=HashRow,
    )


def store_module(sha256: str, target: TargetKind, body: bytes) -> Statement:
    return Statement(
        sql="""
            INSERT INTO artifact (sha256, target, body) VALUES (%(sha256)s, %(target)s, %(body)s)
            ON CONFLICT (sha256) DO NOTHING
        """,
        parameters={"sha256": sha256, "target": target, "body": body},
    )


def linked(sha256: str) -> Statement:
    """Notes that a module is in use. It must be stored as an artifact."""
    return Statement(
        sql="""
            INSERT INTO linked_module (sha256) VALUES (%(sha256)s)
            ON CONFLICT (sha256) DO UPDATE SET linked_at = now()
            WHERE linked_module.linked_at < now() - interval '1 day'
        """,
        parameters={"sha256": sha256},
    )


def remove_unused_modules(days: int) -> Statement:
    """Modules that no gateway has named for so long, and that are no kernel by themselves."""
    return Statement(
        sql="""
            WITH unused AS (
                DELETE FROM linked_module
                WHERE linked_at < now() - make_interval(days => %(days)s) RETURNING sha256
            )
            DELETE FROM artifact a USING unused u
            WHERE a.sha256 = u.sha256
              AND NOT EXISTS (SELECT FROM candidate c WHERE c.artifact_sha256 = a.sha256)
        """,
        parameters={"days": days},
    )


def awaited(name: str) -> Query[AwaitedRow]:
    """Lists what workers have yet to do before pages can run a model: what takes most time
    first."""
    return Query(
        sql="""
            WITH job AS (
                SELECT j.id, j.state, j.priority FROM tuning_job j
                WHERE j.space IN ('', 'any') AND j.cancelled_at IS NULL AND j.workload_key IN (
                    SELECT m.workload_key FROM model_workload m
                    JOIN model_plan p ON p.id = m.plan_id WHERE p.model = %(name)s)
            )
            SELECT waiting.job_id, waiting.candidate_id
            FROM (
                SELECT id AS job_id, NULL AS candidate_id, priority, id, 0 AS ordinal
                FROM job WHERE state = 'waiting'
                UNION ALL
                SELECT NULL, c.candidate_id, job.priority, job.id, p.ordinal
                FROM job JOIN space_point p ON p.job_id = job.id
                JOIN candidate c ON c.candidate_id = p.candidate_id
                WHERE c.state = 'waiting' AND c.is_default
            ) waiting
            ORDER BY waiting.priority DESC, waiting.id, waiting.ordinal
        """,
        parameters={"name": name},
        row=AwaitedRow,
    )


def readiness(name: str) -> Query[ReadinessRow]:
    """Every workload of a model, on each target that it is tuned for."""
    return Query(
        sql="""
            SELECT j.workload_key, j.target,
                   j.state = 'planned' AND NOT space.waits AND NOT space.fails AS ready,
                   CASE WHEN j.state = 'failed' THEN j.detail
                        WHEN space.fails THEN space.detail ELSE '' END AS detail
            FROM tuning_job j
            CROSS JOIN LATERAL (
                SELECT coalesce(bool_or(c.state = 'waiting' AND c.is_default), false) AS waits,
                       j.state = 'planned' AND coalesce(bool_and(c.state = 'failed'), true)
                           AS fails,
                       coalesce(min(c.detail) FILTER (WHERE c.state = 'failed'), '') AS detail
                FROM space_point p JOIN candidate c ON c.candidate_id = p.candidate_id
                WHERE p.job_id = j.id
            ) space
            WHERE j.space IN ('', 'any') AND j.cancelled_at IS NULL AND j.target = ANY (%(targets)s)
              AND j.workload_key IN (
                SELECT m.workload_key FROM model_workload m
                JOIN model_plan p ON p.id = m.plan_id WHERE p.model = %(name)s)
            ORDER BY j.id
        """,
        parameters={"name": name, "targets": [str(each) for each in MEASURED]},
        row=ReadinessRow,
    )


def prioritise(workload_key: str | None = None) -> Statement:
    """Orders the jobs of models by the share of an inference that is expected to be won on the
    job's target: of all models, or of those that call a workload.

    A workload that some class of the target has timed takes the median of those times, each as its
    key's ballots were last counted; any other is taken to run as fast as the timed ones of its plan
    do. Won is the part of it by which the
    fastest kernel is foretold to be faster than the one that is served, for the class that wins
    most; all of it where the cost model knows nothing. What somebody asked for by itself stays
    first. It waits for nobody: a job that somebody else is changing is left for the next time.
    """
    return Statement(
        sql="""
            WITH concerned AS MATERIALIZED (
                SELECT id FROM model_plan WHERE %(key)s::text IS NULL OR id IN (
                    SELECT plan_id FROM model_workload WHERE workload_key = %(key)s)
            ), called AS MATERIALIZED (
                SELECT t.target, m.plan_id, m.workload_key,
                       (m.calls * w.flops)::double precision AS flops,
                       m.calls * (
                           SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY v.best_ns)
                           FROM coverage v
                           WHERE v.workload_key = m.workload_key AND v.target = t.target
                             AND v.state <> 'missing') AS ns
                FROM concerned c JOIN model_workload m ON m.plan_id = c.id
                JOIN workload w ON w.key = m.workload_key
                CROSS JOIN unnest(%(targets)s::text[]) AS t (target)
            ), rate AS (
                SELECT target, plan_id,
                       coalesce(sum(ns) / nullif(sum(flops) FILTER (WHERE ns IS NOT NULL), 0), 1)
                           AS ns_per_flop
                FROM called GROUP BY target, plan_id
            ), taken AS (
                SELECT target, plan_id, workload_key, coalesce(ns, flops * ns_per_flop) AS ns
                FROM called JOIN rate USING (target, plan_id)
            ), gain AS (
                SELECT j.target, j.workload_key,
                       greatest(max(1 - 2 ^ (fastest.cost - o.costs[
                           array_position(o.candidate_ids, served.candidate_id)])),
                           %(least)s) AS part
                FROM tuning_job j
                JOIN evaluation_order o ON o.job_id = j.id AND o.costs IS NOT NULL
                CROSS JOIN LATERAL (SELECT min(cost) AS cost FROM unnest(o.costs) cost) fastest
                CROSS JOIN LATERAL (
                    SELECT coalesce(
                        (SELECT e.candidate_id FROM zoo_entry e
                         WHERE e.workload_key = j.workload_key AND e.device_class = o.device_class
                           AND e.state <> 'retired'),
                        (SELECT d.candidate_id
                         FROM default_kernel(j.workload_key, o.device_class) d)
                    ) AS candidate_id
                ) served
                WHERE j.workload_key IN (SELECT workload_key FROM called)
                GROUP BY j.target, j.workload_key
            ), shared AS (
                SELECT target, workload_key,
                       ns * coalesce(gain.part, 1)
                           / sum(ns) OVER (PARTITION BY target, plan_id) AS share
                FROM taken LEFT JOIN gain USING (target, workload_key)
            ), largest AS (
                SELECT target, workload_key, least(max(share), 0.999) AS share
                FROM shared GROUP BY target, workload_key
            ), changed AS (
                SELECT j.id, largest.share
                FROM largest JOIN tuning_job j USING (target, workload_key)
                WHERE j.priority < 1 AND j.priority <> largest.share
                FOR UPDATE OF j SKIP LOCKED
            )
            UPDATE tuning_job j SET priority = changed.share
            FROM changed WHERE j.id = changed.id
        """,
        parameters={
            "key": workload_key,
            "targets": [str(each) for each in MEASURED],
            "least": LEAST_GAIN,
        },
    )


def cancel_unused_jobs() -> Statement:
    """Jobs that were opened for models alone, of which none is left."""
    return Statement(
        sql="""
            UPDATE tuning_job j SET cancelled_at = now()
            WHERE j.priority < 1 AND j.cancelled_at IS NULL
              AND NOT EXISTS (SELECT FROM model_workload m WHERE m.workload_key = j.workload_key)
        """
    )


def coverage(name: str, most_classes: int) -> Query[PlanCoverageRow]:
    """The plans of a model on the classes that pages ask for most."""
    return Query(
        sql="""
            WITH covered AS MATERIALIZED (
                SELECT * FROM model_coverage WHERE model = %(name)s
            ), class AS MATERIALIZED (
                SELECT device_class FROM covered GROUP BY device_class
                ORDER BY max(confirmed) DESC, max(loads) DESC, device_class LIMIT %(most)s
            ), called AS MATERIALIZED (
                SELECT p.id AS plan_id, m.workload_key, m.calls, m.calls * w.flops AS flops
                FROM model_plan p
                JOIN model_workload m ON m.plan_id = p.id
                JOIN workload w ON w.key = m.workload_key
                WHERE p.model = %(name)s
            ), spent AS MATERIALIZED (
                -- What is not measured is taken to run as fast as the rest.
                SELECT called.plan_id, class.device_class,
                       sum(called.calls * t.ns) * sum(called.flops)
                           / sum(called.flops) FILTER (WHERE t.ns IS NOT NULL) AS elapsed_ns,
                       coalesce(sum(called.flops) FILTER (WHERE t.ns IS NOT NULL)
                           / sum(called.flops), 0)::double precision AS measured
                FROM class CROSS JOIN called
                LEFT JOIN (
                    SELECT k.workload_key, k.device_class,
                           coalesce(k.best_ns, k.reference_ns) AS ns
                    FROM coverage k WHERE k.device_class IN (SELECT device_class FROM class)
                ) t ON t.workload_key = called.workload_key
                   AND t.device_class = class.device_class
                GROUP BY called.plan_id, class.device_class
            ), prepared AS MATERIALIZED (
                SELECT called.plan_id, k.device_class,
                       sum(k.compile_ns + called.calls * k.pack_ns
                           + greatest(0, k.first_run_ns - k.run_ns)) AS prepare_ns
                FROM called JOIN kernel_by_runs k ON k.workload_key = called.workload_key
                WHERE k.runs IS NULL AND k.device_class IN (SELECT device_class FROM class)
                GROUP BY called.plan_id, k.device_class
            )
            SELECT c.dimensions, p.precision, c.device_class, c.workloads, c.confirmed,
                   c.provisional, c.confirmed_flops, c.loads, t.elapsed_ns, t.measured, b.prepare_ns
            FROM covered c JOIN class USING (device_class)
            JOIN model_plan p ON p.model = c.model AND p.position = c.position
            JOIN spent t ON t.plan_id = p.id AND t.device_class = c.device_class
            LEFT JOIN prepared b ON b.plan_id = p.id AND b.device_class = c.device_class
            ORDER BY c.loads DESC, c.device_class, c.position
        """,
        parameters={"name": name, "most": most_classes},
        row=PlanCoverageRow,
    )


def call_times(plan_id: int, device_class: DeviceClass) -> Query[CallTimeRow]:
    """The workloads of a plan on a class, those that take most of an inference first."""
    return Query(
        sql="""
            SELECT m.workload_key, m.calls, w.flops, coalesce(e.state, 'missing') AS state,
                   expected_time(m.workload_key, %(class)s) AS expected_ns
            FROM model_workload m JOIN workload w ON w.key = m.workload_key
            LEFT JOIN zoo_entry e ON e.workload_key = m.workload_key
                AND e.device_class = %(class)s AND e.state <> 'retired'
            WHERE m.plan_id = %(plan)s
            ORDER BY m.calls * w.flops DESC, m.workload_key
        """,
        parameters={"plan": plan_id, "class": device_class},
        row=CallTimeRow,
    )
