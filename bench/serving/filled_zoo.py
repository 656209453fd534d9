"""A zoo as it is after months, made by SQL in minutes: only how much was measured before differs.

Rows are those of the schema before `FILLED_BEFORE`, and the migrations after it are applied to
them, as they are to a zoo that has grown. Devices, workloads, what is served and the ballots that
stand are as many in every such database, and as much is measured in a day: of ten times the
measurements ten times the days have passed, and leases, sessions and identities have grown as much.

What is measured is as unequal as crowds are. A quarter is of `Scale.hot` keys, each of a class of
its own; the others are drawn from all keys by a power law, the first of which is measured 400 times
as often as the last. Of a lease's eight kernels two are of the five fastest; one measurement in a
hundred is a failure, and one in forty is refused. Identities come and go: each measures for some
days and is followed by another. In the last two days `VOTERS` of each hot class have measured its
hot key whole, and their ballots stand; on other keys five do.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import LiteralString

import msgspec
import psycopg
from psycopg import sql

from cli.terminal import note
from fixtures.postgres import PASSWORD, SERVICE, Postgres, as_service
from kernelzoo.domain.artifact import ABI_VERSION, ArtifactManifest
from kernelzoo.domain.dtype import DType
from kernelzoo.domain.gpu import GPU_MODELS
from kernelzoo.domain.plan import (
    ALIGNMENT_BYTES,
    Golden,
    GoldenPart,
    Plan,
    PlanMemory,
    PlanTensor,
    Port,
    PortDType,
)
from kernelzoo.domain.target import TargetKind
from kernelzoo.domain.workload import Workload
from kernelzoo.formats.plans import plan_bytes
from kernelzoo.store.blocking import Database
from kernelzoo.store.migrate import migrate

FILLED_BEFORE = "0062"
"""The first migration that is applied to the rows, and not to an empty database."""
LENT = 8
"""Candidates of a lease, all of which were measured."""
LEADERS = 5
"""The first of a space lead, and two of each lease are of them."""
A_DAY = 56_000
"""Measurements: ten million are as old as retention lets them become by default, 180 days."""
VOTERS = 40
"""On each hot key, and as many leases of each hot key's whole space within the last `NEW_DAYS`."""
NEW_DAYS = 2
OTHER_VOTERS = 5
"""On any other key."""
FULL_BELOW_BYTES = "8GB"
"""So much is written ahead before a checkpoint, of which filling needs none."""
GPU_SPACES = tuple(GPU_MODELS)[:4]
MODEL_NAMES = ("model-a", "model-b")
WASM, WEBGPU = "wasm+relaxed-simd+simd128", "webgpu+subgroups"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """There is so much of what does not grow. A model has `model_workloads`, and `workloads` in all
    are tuned; one class in four is of a GPU. Of the workloads one in `new_every` was registered
    hours ago."""

    classes: int = 2_000
    entries: int = 30_000
    model_workloads: int = 200
    workloads: int = 500
    candidates: int = 40
    invented: int = 2_000
    hot: int = 64
    new_every: int = 35

    @property
    def keys(self) -> int:
        """On which anything was measured; a third more than are served."""
        return self.entries * 4 // 3


TINY = Scale(
    classes=40,
    entries=200,
    model_workloads=5,
    workloads=15,
    candidates=16,
    invented=20,
    hot=2,
    new_every=7,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """`job`: which the class measures."""

    workload: str
    device_class: str
    job: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FilledZoo:
    """`folder` has the files of its models. `keys`: hot ones, of as many classes; `artifacts` are
    of WebAssembly."""

    measurements: int
    owner_url: str
    folder: Path
    migrated_s: float
    keys: tuple[Key, ...]
    sets: tuple[str, ...]
    artifacts: tuple[str, ...]
    identities: tuple[str, ...]

    @property
    def url(self) -> str:
        """Address by which gateways and workers connect."""
        return as_service(self.owner_url)


@contextmanager
def filled_zoos(folder: Path, sizes: list[int], scale: Scale) -> Iterator[list[FilledZoo]]:
    """Gives one for each number of measurements, in a server of their own, until the block ends.
    Those that are in the folder already are taken as they are, and migrated."""
    server = Postgres.start(folder / "postgres")
    try:
        _for_filling(server)
        yield [_zoo(server, folder / f"models-{size}", size, scale) for size in sizes]
    finally:
        server.stop()


def _for_filling(server: Postgres) -> None:
    """No checkpoints while filling, and nobody vacuums while it is asked: each zoo is, once it is
    whole."""
    with psycopg.connect(server.url("postgres"), autocommit=True) as db:
        limit = sql.Literal(FULL_BELOW_BYTES)
        db.execute(sql.SQL("ALTER SYSTEM SET max_wal_size = {}").format(limit))
        db.execute("ALTER SYSTEM SET autovacuum = off")
        db.execute("SELECT pg_reload_conf()")


def _zoo(server: Postgres, folder: Path, measurements: int, scale: Scale) -> FilledZoo:
    name = f"zoo_{measurements}"
    with psycopg.connect(server.url("postgres"), autocommit=True) as db:
        kept = db.execute("SELECT FROM pg_database WHERE datname = %s", (name,)).fetchone()
    if kept is None:
        note(f"filling a zoo with {measurements:,} measurements")
        _fill(server, name, folder, measurements, scale)
    url = server.url(name)
    start_s = time.perf_counter()
    migrate(url, grant_to=SERVICE, password=PASSWORD)
    migrated_s = time.perf_counter() - start_s
    with psycopg.connect(url, autocommit=True) as db:
        for name in MODEL_NAMES:
            db.execute(
                "UPDATE model SET source_graph = %(graph)s, source_weights = %(graph)s"
                " WHERE name = %(name)s",
                {"name": name, "graph": graph_of(name)},
            )
        db.execute("VACUUM (ANALYZE)")
        return FilledZoo(
            measurements=measurements,
            owner_url=url,
            folder=folder,
            migrated_s=migrated_s,
            keys=_hot_keys(db, scale),
            sets=_texts(db, "SELECT DISTINCT name FROM workload_set ORDER BY name"),
            artifacts=_texts(
                db, "SELECT sha256 FROM artifact WHERE target = 'wasm' ORDER BY sha256 LIMIT 32"
            ),
            identities=_texts(db, "SELECT id::text FROM identity ORDER BY id LIMIT 32"),
        )


def graph_of(model: str) -> str:
    """Makes the hash by which pages ask for the model, a column of migrations after the filling."""
    return sha256(model.encode()).hexdigest()


def _fill(server: Postgres, name: str, folder: Path, measurements: int, scale: Scale) -> None:
    """Under another name until it is whole, so that one that was interrupted is not taken."""
    partial = f"{name}_partial"
    with psycopg.connect(server.url("postgres"), autocommit=True) as db:
        db.execute(sql.SQL("DROP DATABASE IF EXISTS {}").format(sql.Identifier(partial)))
    url = server.create_database_before(FILLED_BEFORE, name=partial)
    with psycopg.connect(url, autocommit=True) as db:
        # Foreign keys hold by how the rows are made; checking ten million takes longer.
        db.execute("SET session_replication_role = replica")
        db.execute("SET work_mem = '256MB'")
        db.execute("SET maintenance_work_mem = '1GB'")
        _describe(db, scale)
        _people(db, scale, measurements)
        _work(db, scale, measurements)
        _vote(db)
        _served(db, scale)
        _counted(db)
        _models(db, folder, scale)
        db.execute("VACUUM (ANALYZE)")
    with psycopg.connect(server.url("postgres"), autocommit=True) as db:
        rename = sql.SQL("ALTER DATABASE {} RENAME TO {}")
        db.execute(rename.format(sql.Identifier(partial), sql.Identifier(name)))


def _describe(db: Database, scale: Scale) -> None:
    """Devices, classes, workloads, jobs and their kernels."""
    db.execute(
        """
        CREATE UNLOGGED TABLE filled_class AS
        SELECT d AS number, d %% 4 = 3 AS gpu, lpad(to_hex(d + 1), 16, '0') AS device_id,
               lpad(to_hex(d + 1), 16, '0') || CASE WHEN d %% 4 = 3
                   THEN ':r101-0:' || %(webgpu)s ELSE ':r1-0:' || %(wasm)s END AS device_class,
               CASE WHEN d %% 4 = 3 THEN 1 + d / 4 %% cardinality(%(spaces)s::text[]) END AS space
        FROM generate_series(0, %(classes)s - 1) d
        """,
        {
            "classes": scale.classes,
            "wasm": WASM,
            "webgpu": WEBGPU,
            "spaces": list(GPU_SPACES),
        },
    )
    db.execute(
        """
        INSERT INTO device (device_id, cpu_architecture, logical_cores, gpu_vendor,
                            gpu_architecture, gpu_model, agents)
        SELECT device_id, 'x86', 4, CASE WHEN gpu THEN 'nvidia' ELSE '' END,
               CASE WHEN gpu THEN 'turing' ELSE '' END,
               coalesce((%(spaces)s::text[])[space], 'any'), 5
        FROM filled_class
        """,
        {"spaces": list(GPU_SPACES)},
    )
    db.execute(
        """
        INSERT INTO device_class (device_class, device_id, engines, peak_gflops, identities,
                                  measurements)
        SELECT device_class, device_id, ARRAY['Chromium 156'], 60, 5, 500 FROM filled_class
        """
    )
    workloads = [Workload.of("matmul", (16 + i, 64, 64)) for i in range(scale.workloads)]
    db.execute(
        """
        CREATE UNLOGGED TABLE filled_workload AS
        SELECT place - 1 AS number, key, flops
        FROM unnest(%(keys)s::text[], %(flops)s::bigint[]) WITH ORDINALITY AS w (key, flops, place)
        """,
        {"keys": [each.key for each in workloads], "flops": [each.flops for each in workloads]},
    )
    db.execute("INSERT INTO workload (key, flops) SELECT key, flops FROM filled_workload")
    db.execute(
        """
        INSERT INTO workload_set (name, position, workload_key)
        SELECT 'set-' || number / 10, number %% 10, key FROM filled_workload
        WHERE number >= %(models)s
        """,
        {"models": len(MODEL_NAMES) * scale.model_workloads},
    )
    db.execute(
        """
        INSERT INTO tuning_job (id, workload_key, target, space, state, created_at)
        OVERRIDING SYSTEM VALUE
        SELECT 1 + number * 5 + s.place, key, CASE WHEN s.place = 0 THEN 'wasm' ELSE 'webgpu' END,
               s.space, 'planned',
               now() - CASE WHEN number %% %(new_every)s = 0 THEN interval '5 hours'
                            ELSE interval '180 days' END
        FROM filled_workload
        CROSS JOIN (SELECT 0 AS place, '' AS space UNION ALL
                    SELECT place, space
                    FROM unnest(%(spaces)s::text[]) WITH ORDINALITY AS s (space, place)) s
        """,
        {"spaces": list(GPU_SPACES), "new_every": scale.new_every},
    )
    for target in (TargetKind.WASM, TargetKind.WEBGPU):
        _kernels(db, target, workloads[0], scale)
    db.execute("SELECT setval(pg_get_serial_sequence('tuning_job', 'id'), 1000000000)")


def _kernels(db: Database, target: TargetKind, workload: Workload, scale: Scale) -> None:
    manifest = ArtifactManifest(
        abi=ABI_VERSION,
        target=target,
        requires=(),
        tensors=workload.tensors,
        scratch_bytes=0,
        range_extent=1,
    )
    db.execute(
        """
        WITH made AS (
            SELECT number, key, c, md5(key || %(target)s || c) AS id FROM filled_workload
            CROSS JOIN generate_series(0, %(candidates)s - 1) c
        ), stored AS (
            INSERT INTO artifact (sha256, target, body)
            SELECT encode(sha256(id::bytea), 'hex'), %(target)s, id::bytea FROM made
        )
        INSERT INTO candidate (candidate_id, config, requires, state, artifact_sha256, compile_ns,
                               compiled_at, workload_key, target, manifest, is_default)
        SELECT id, jsonb_build_object('tile', c), '{}', 'compiled',
               encode(sha256(id::bytea), 'hex'), 5000000 + c, now(), key, %(target)s,
               %(manifest)s::jsonb, c = 0
        FROM made ORDER BY number, c
        """,
        {
            "target": target,
            "candidates": scale.candidates,
            "manifest": msgspec.json.encode(manifest).decode(),
        },
    )
    db.execute(
        """
        INSERT INTO space_point (job_id, ordinal, candidate_id)
        SELECT j.id, c, md5(j.workload_key || j.target || c) FROM tuning_job j
        CROSS JOIN generate_series(0, %(candidates)s - 1) c WHERE j.target = %(target)s
        ORDER BY j.id, c
        """,
        {"target": target, "candidates": scale.candidates},
    )


def _people(db: Database, scale: Scale, measurements: int) -> None:
    """Identities of each class in the order in which they came, with two sessions of each. One has
    measured two hundred kernels, or fewer. In a hot class the last `VOTERS` are of the last days.
    """
    many = max(OTHER_VOTERS, measurements * 3 // 4 // 200 // scale.classes)
    more = measurements // 4 // 200 // scale.hot
    db.execute(
        """
        CREATE UNLOGGED TABLE filled_crowd AS
        SELECT number AS class, %(many)s + CASE WHEN number < %(hot)s THEN %(more)s ELSE 0 END
                   AS people,
               CASE WHEN number < %(hot)s THEN %(voters)s ELSE 0 END AS voters
        FROM filled_class
        """,
        {"many": many, "more": more, "hot": scale.hot, "voters": VOTERS},
    )
    db.execute(
        """
        CREATE UNLOGGED TABLE filled_identity AS
        SELECT row_number() OVER () AS number, md5('identity' || class || '/' || n)::uuid AS id,
               class, n,
               now() - CASE WHEN n < people
                   THEN make_interval(days => %(new_days)s)
                        + (people - n) * make_interval(secs => %(days)s * 86400.0 / people)
                   ELSE make_interval(days => %(new_days)s) END AS came_at
        FROM filled_crowd CROSS JOIN LATERAL generate_series(0, people + voters - 1) n
        ORDER BY came_at, class, n
        """,
        {"days": _days(measurements), "new_days": NEW_DAYS},
    )
    db.execute(
        """
        INSERT INTO identity (id, network, operated, valid_in_row, created_at, renewed_at)
        SELECT id, md5('network' || number % 5000), false, 40, came_at, came_at
        FROM filled_identity
        """
    )
    db.execute(
        """
        INSERT INTO agent_session (id, identity_id, device_id, device_class, engine_name,
                                   engine_version, peak_gflops, isolated, network, created_at)
        OVERRIDING SYSTEM VALUE
        SELECT i.number * 2 + s, i.id, c.device_id, c.device_class, 'Chromium', '156.0', 60,
               true, md5('network' || i.number % 5000), i.came_at + s * interval '1 hour'
        FROM filled_identity i JOIN filled_class c ON c.number = i.class
        CROSS JOIN generate_series(0, 1) s
        ORDER BY i.number, s
        """
    )
    db.execute("SELECT setval(pg_get_serial_sequence('agent_session', 'id'), 1000000000)")


def _days(measurements: int) -> float:
    """Over which all but what is new was measured."""
    return measurements / A_DAY


def _work(db: Database, scale: Scale, measurements: int) -> None:
    """Leases of `LENT` candidates in the order of time, all of which were measured."""
    db.execute(
        """
        CREATE UNLOGGED TABLE filled_key AS
        SELECT k AS number, c.number AS class, c.device_class, w.key AS workload_key,
               w.number AS workload, CASE WHEN c.gpu THEN 'webgpu' ELSE 'wasm' END AS target,
               1 + w.number * 5 + coalesce(c.space, 0) AS job_id, k < %(entries)s AS served,
               k < %(hot)s AS hot
        FROM generate_series(0, %(keys)s - 1) k
        JOIN filled_class c ON c.number = k %% %(classes)s
        JOIN filled_workload w
          ON w.number = (k / %(classes)s * 37 + k %% %(classes)s * 7) %% %(workloads)s
        """,
        {
            "entries": scale.entries,
            "hot": scale.hot,
            "keys": scale.keys,
            "classes": scale.classes,
            "workloads": scale.workloads,
        },
    )
    db.execute("CREATE UNIQUE INDEX ON filled_key (number)")
    db.execute("CREATE UNIQUE INDEX ON filled_identity (class, n)")
    db.execute(
        """
        CREATE UNLOGGED TABLE filled_lease AS
        SELECT row_number() OVER (ORDER BY at, key, n, part) AS id, at, key, n,
               coalesce(part, -1) AS part
        FROM (
            SELECT now() - make_interval(
                       secs => 86400 * (%(new_days)s + %(days)s::float8 * (1 - p))) AS at,
                   CASE WHEN (hashint8(l) & 3) = 0
                        THEN (hashint8(l + 1000000007) & 1048575) %% %(hot)s
                        ELSE floor(%(keys)s * power(
                            (hashint8(l + 2000000011) & 1048575) / 1048576.0, 2))::integer END
                       AS key,
                   NULL::integer AS n, p, NULL::integer AS part
            FROM generate_series(0, %(leases)s - 1) l
            CROSS JOIN LATERAL (SELECT (l + 0.5) / %(leases)s AS p) progress
            UNION ALL
            SELECT now() - interval '1 hour' - make_interval(
                       secs => (1 - v / %(voters)s::float8) * (%(new_days)s * 86400 - 7200)),
                   k, v, NULL, part
            FROM generate_series(0, %(hot)s - 1) k CROSS JOIN generate_series(0, %(voters)s - 1) v
            CROSS JOIN generate_series(0, (%(candidates)s - 1) / %(lent)s) part
        ) made
        """,
        {
            "leases": max(1, measurements // LENT),
            "keys": scale.keys,
            "hot": scale.hot,
            "voters": VOTERS,
            "candidates": scale.candidates,
            "lent": LENT,
            "days": _days(measurements),
            "new_days": NEW_DAYS,
        },
    )
    db.execute("ANALYZE filled_key, filled_identity, filled_crowd, filled_lease")
    with _without_indexes(db, "lease", "lease_item", "measurement"):
        db.execute(
            """
            INSERT INTO lease (id, session_id, identity_id, device_class, job_id, reference_id,
                               seed, nonce, created_at, expires_at, answered, complete)
            OVERRIDING SYSTEM VALUE
            SELECT l.id, i.number * 2, i.id, k.device_class, k.job_id,
                   md5(k.workload_key || k.target || 0), l.id %% 4294967295, '',
                   l.at, l.at + interval '1 minute', true, l.part = 0
            FROM filled_lease l
            JOIN filled_key k ON k.number = l.key
            JOIN filled_crowd c ON c.class = k.class
            JOIN filled_identity i ON i.class = k.class
             AND i.n = CASE WHEN l.n IS NULL
                 THEN floor(c.people * extract(epoch FROM l.at - (SELECT min(at) FROM filled_lease))
                            / (%(days)s * 86400 + 1))::integer
                 ELSE c.people + l.n END
            ORDER BY l.id
            """,
            {"days": _days(measurements)},
        )
        db.execute(
            """
            INSERT INTO lease_item (lease_id, candidate_id)
            SELECT l.id, md5(k.workload_key || k.target || CASE
                WHEN l.part >= 0 THEN l.part * %(lent)s + item
                WHEN item < 2 THEN (l.id + item) %% %(leaders)s
                ELSE %(leaders)s + ((hashint8(l.id) & 65535) + item)
                     %% (%(candidates)s - %(leaders)s) END)
            FROM filled_lease l
            JOIN filled_key k ON k.number = l.key
            CROSS JOIN generate_series(0, %(lent)s - 1) item
            ORDER BY l.id
            """,
            {"lent": LENT, "leaders": LEADERS, "candidates": scale.candidates},
        )
        db.execute(
            """
            INSERT INTO measurement (lease_id, candidate_id, identity_id, device_class, outcome,
                                     samples_ns, reference_ns, calls_per_sample, sampled_entries,
                                     detail, verdict, best_ns, created_at, requeued_at,
                                     relative_time, job_id)
            SELECT l.id, i.candidate_id, l.identity_id, l.device_class,
                   CASE WHEN t.failed THEN 'run' ELSE 'ok' END,
                   CASE WHEN t.failed THEN '{}' ELSE ARRAY[t.ns, t.ns * 1.01, t.ns * 1.02] END,
                   CASE WHEN t.failed THEN '{}' ELSE ARRAY[1.5e6, 1.52e6, 1.53e6] END,
                   10, '{}', '', CASE WHEN t.wrong THEN 'rejected' ELSE 'verified' END,
                   CASE WHEN NOT t.failed THEN t.ns END, l.created_at, l.created_at,
                   CASE WHEN NOT t.failed THEN t.ns / 1.5e6 END, l.job_id
            FROM lease l JOIN lease_item i ON i.lease_id = l.id
            CROSS JOIN LATERAL (
                SELECT hashtext(i.candidate_id || l.id) & 1023 AS number) h
            CROSS JOIN LATERAL (
                SELECT h.number < 10 AS failed, h.number >= 1000 AS wrong,
                       1e6 + (hashtext(i.candidate_id) & 1048575) + h.number * 100 AS ns) t
            ORDER BY l.id
            """
        )
    db.execute("SELECT setval(pg_get_serial_sequence('lease', 'id'), 1000000000)")


def _vote(db: Database) -> None:
    """Ballots of the latest identities of a class: each is of its key's leaders."""
    db.execute(
        """
        INSERT INTO ballot (identity_id, workload_key, device_class, candidate_ids,
                            relative_times, filed_at, tallied)
        SELECT i.id, k.workload_key, k.device_class,
               ARRAY(SELECT md5(k.workload_key || k.target || c)
                     FROM generate_series(0, %(leaders)s - 1) c),
               ARRAY[0.6, 0.7, 0.8, 0.9, 1.0], i.came_at + interval '6 hours', true
        FROM filled_key k JOIN filled_crowd c ON c.class = k.class
        JOIN filled_identity i ON i.class = k.class
         AND i.n >= c.people + c.voters - CASE WHEN k.hot THEN %(voters)s ELSE %(others)s END
        ORDER BY i.number, k.number
        """,
        {"leaders": LEADERS, "voters": VOTERS, "others": OTHER_VOTERS},
    )


@contextmanager
def _without_indexes(db: Database, *tables: str) -> Iterator[None]:
    """Drops indexes that are no constraints until all rows are there, which is faster."""
    found = db.execute(
        """
        SELECT i.indexrelid::regclass::text, pg_get_indexdef(i.indexrelid) FROM pg_index i
        WHERE i.indrelid = ANY (%s::regclass[]) AND NOT EXISTS (
            SELECT FROM pg_constraint c WHERE c.conindid = i.indexrelid)
        """,
        (list(tables),),
    ).fetchall()
    for name, _ in found:
        db.execute(sql.SQL("DROP INDEX {}").format(sql.Identifier(name)))
    yield
    for _, definition in found:
        db.execute(definition)


def _served(db: Database, scale: Scale) -> None:
    """Entries with one version before each, what is offered beside them, denials, failures, and
    what pages asked for: of classes that nobody is of, too. The hot keys' entries are newest."""
    db.execute(
        """
        INSERT INTO zoo_entry (workload_key, device_class, version, candidate_id, state, ballots,
                               weight, total_weight, relative_time, published_at, served,
                               aggregated, engines, speaks, final)
        SELECT k.workload_key, k.device_class, v, md5(k.workload_key || k.target || v),
               CASE WHEN v = 1 THEN 'retired' WHEN k.number %% 5 = 4 THEN 'provisional'
                    ELSE 'confirmed' END,
               5, 25, 75, 0.7, now() - make_interval(secs => k.number * 50 + 3600 + 3 - v),
               v = 2 AND k.number %% 5 < 4, true,
               '[{"name": "Chromium", "major": 156, "ballots": 5}]', true, k.number %% 2 = 0
        FROM filled_key k CROSS JOIN generate_series(1, 2) v WHERE k.served
        """,
        {"entries": scale.entries},
    )
    db.execute(
        """
        INSERT INTO kernel_by_runs (workload_key, device_class, version, candidate_id, runs,
                                    compile_ns, optimise_ns, pack_ns, first_run_ns, run_ns, voters)
        SELECT workload_key, device_class, version, candidate_id, NULL, 1e6, 1e5, 1e4, 2e6, 1e6, 5
        FROM zoo_entry WHERE state = 'confirmed'
        """
    )
    db.execute(
        """
        INSERT INTO denied (artifact_sha256, device_class, denied, stage, evidence, operated)
        SELECT c.artifact_sha256, k.device_class, true, 'run', '', false
        FROM filled_key k JOIN candidate c
          ON c.candidate_id = md5(k.workload_key || k.target || 7) WHERE k.number % 150 = 0
        """
    )
    db.execute(
        """
        INSERT INTO page_failure (artifact_sha256, device_class, network, workload_key, stage,
                                  detail, tallied)
        SELECT c.artifact_sha256, k.device_class, md5('network' || n), k.workload_key, 'run', '',
               true
        FROM filled_key k JOIN candidate c
          ON c.candidate_id = md5(k.workload_key || k.target || 7)
        CROSS JOIN generate_series(1, 3) n WHERE k.number % 15 = 0
        """
    )
    db.execute(
        """
        INSERT INTO page_load (name, device_class, loads)
        SELECT name, device_class, 1 + number %% 97
        FROM (SELECT number, device_class FROM filled_class UNION ALL
              SELECT n, lpad(to_hex(n + 1000000), 16, '0') || ':r1-0:' || %(wasm)s
              FROM generate_series(1, %(invented)s) n) c
        CROSS JOIN (SELECT 'model:' || unnest(%(models)s::text[]) AS name UNION ALL
                    SELECT DISTINCT name FROM workload_set WHERE position = 0 AND name LIKE '%%5')
            AS asked
        """,
        {"wasm": WASM, "invented": scale.invented, "models": list(MODEL_NAMES)},
    )
    db.execute(
        """
        INSERT INTO cost_model (sha256, body, published, reason, evaluation, measurements)
        SELECT encode(sha256(n::text::bytea), 'hex'), '', false, '',
               '{"devices": null, "shapes": null}', n
        FROM generate_series(1, 60) n
        """
    )
    db.execute(
        """
        INSERT INTO application (name, key_hash, origins, jobs_per_day, sets, workloads_per_set)
        SELECT 'application-' || n, encode(sha256(n::text::bytea), 'hex'), '{}', 10, 10, 10
        FROM generate_series(1, 50) n
        """
    )


def _counted(db: Database) -> None:
    """Writes what triggers and the clock count as rows come, which are off while millions do."""
    db.execute(
        """
        INSERT INTO coverage (workload_key, device_class, state, relative_time, candidate_id,
                              best_ns, reference_ns, noted_at)
        SELECT workload_key, device_class, state, relative_time, candidate_id,
               relative_time * 1.5e6, 1.5e6, now()
        FROM zoo_entry WHERE state <> 'retired'
        """
    )
    db.execute(
        """
        INSERT INTO job_progress
            (job_id, device_class, agents, candidates, ok, run, rejected, best_ns, begun_at,
             last_at)
        SELECT m.job_id, m.device_class, count(DISTINCT m.identity_id),
               count(DISTINCT m.candidate_id),
               count(*) FILTER (WHERE m.outcome = 'ok' AND m.verdict <> 'rejected'),
               count(*) FILTER (WHERE m.outcome = 'run'),
               count(*) FILTER (WHERE m.verdict = 'rejected'),
               min(m.best_ns) FILTER (WHERE m.verdict = 'verified'), min(l.created_at),
               max(m.created_at)
        FROM measurement m JOIN lease l ON l.id = m.lease_id GROUP BY m.job_id, m.device_class
        """
    )
    db.execute(
        """
        UPDATE job_progress p SET ballots = b.ballots
        FROM (SELECT k.job_id, b.device_class, count(*) AS ballots
              FROM ballot b JOIN filled_key k USING (workload_key, device_class)
              GROUP BY k.job_id, b.device_class) b
        WHERE b.job_id = p.job_id AND b.device_class = p.device_class
        """
    )
    db.execute(
        """
        INSERT INTO improvement
            (job_id, device_class, round, elapsed_s, best_ns, lease_id, candidate_id)
        SELECT job_id, device_class, round, elapsed_s, best_ns, lease_id, candidate_id
        FROM (
            SELECT m.job_id, m.device_class, m.best_ns, m.lease_id, m.candidate_id, m.verdict,
                   row_number() OVER made AS round,
                   extract(epoch FROM m.created_at - min(m.created_at) OVER (
                       PARTITION BY m.job_id, m.device_class)) AS elapsed_s,
                   min(m.best_ns) FILTER (WHERE m.verdict <> 'rejected')
                       OVER (made ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before_ns
            FROM measurement m
            WINDOW made AS (PARTITION BY m.job_id, m.device_class
                            ORDER BY m.created_at, m.candidate_id, m.lease_id)
        ) rounds
        WHERE verdict <> 'rejected' AND best_ns < coalesce(before_ns, 'infinity')
        """
    )


def _models(db: Database, folder: Path, scale: Scale) -> None:
    for number, name in enumerate(MODEL_NAMES):
        plan, golden = _network(name)
        for body in (plan, golden):
            place = folder / sha256(body).hexdigest()[:2] / sha256(body).hexdigest()
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(body)
        db.execute("INSERT INTO model (name, source) VALUES (%s, 'made.onnx')", (name,))
        db.execute(
            """
            WITH plan AS (
                INSERT INTO model_plan (model, position, dimensions, plan_sha256, plan_bytes,
                                        weights_sha256, weights_bytes, golden_sha256, golden_bytes)
                VALUES (%(name)s, 0, '{}', %(plan)s, %(plan_bytes)s, %(golden)s, 0, %(golden)s,
                        %(golden_bytes)s)
                RETURNING id
            )
            INSERT INTO model_workload (plan_id, position, workload_key, calls)
            SELECT plan.id, w.number, w.key, 1 + w.number %% 3
            FROM plan CROSS JOIN filled_workload w WHERE w.number / %(each)s = %(number)s
            """,
            {
                "name": name,
                "plan": sha256(plan).hexdigest(),
                "plan_bytes": len(plan),
                "golden": sha256(golden).hexdigest(),
                "golden_bytes": len(golden),
                "each": scale.model_workloads,
                "number": number,
            },
        )


def _network(name: str) -> tuple[bytes, bytes]:
    """A plan whose output is its input, and its golden file: what it calls is in rows alone."""
    entries = bytes(ALIGNMENT_BYTES)
    golden = entries * 2
    plan = Plan(
        needs=(),
        model=name,
        dimensions={},
        inputs=(Port(name="x", dtype=PortDType.FLOAT32, shape=(16,), tensor=0),),
        outputs=(Port(name="y", dtype=PortDType.FLOAT32, shape=(16,), tensor=0),),
        tensors=(PlanTensor(dtype=DType.F32, shape=(16,), at=0),),
        weights=(),
        chunks=(),
        kernels=(),
        calls=(),
        memory=PlanMemory(weights=0, activations=len(entries)),
        golden=Golden(
            sha256=sha256(golden).hexdigest(),
            inputs=(GoldenPart(name="x", offset=0, bytes=len(entries)),),
            outputs=(GoldenPart(name="y", offset=len(entries), bytes=len(entries)),),
            tolerance=1e-4,
        ),
    )
    return plan_bytes(plan), golden


def _hot_keys(db: Database, scale: Scale) -> tuple[Key, ...]:
    """They are of as many classes; every fourth is of a GPU."""
    rows = db.execute(
        """
        SELECT workload_key, device_class, job_id FROM filled_key
        WHERE number < %s ORDER BY number LIMIT 32
        """,
        (scale.hot,),
    ).fetchall()
    return tuple(Key(workload=key, device_class=name, job=job) for key, name, job in rows)


def _texts(db: Database, question: LiteralString) -> tuple[str, ...]:
    return tuple(row[0] for row in db.execute(question).fetchall())
