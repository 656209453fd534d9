"""A database of the version before is upgraded to the words of the field, and loses nothing."""

import json
import lzma
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from fastapi.testclient import TestClient
from psycopg import sql
from psycopg.types.json import Jsonb

from fixtures.postgres import Postgres
from kernelzoo.domain.candidate import Candidate
from kernelzoo.domain.former_keys import respelled
from kernelzoo.domain.gpu import GPU_MODELS
from kernelzoo.domain.target import FEATURES, TargetKind
from kernelzoo.domain.workload import Workload
from kernelzoo.settings import Settings
from kernelzoo.store.migrate import migrate
from services.gateway.app import application
from services.tuner.schedules.registry import lite_space

RECORDED = Path("fixtures/recorded/before_field_words.json.xz")
"""Spaces as the versions before migrations 0032 and 0037 wrote them, the latter with keys of today;
with the kernels of the first two of each."""

RENAMED = {"ration": "lending_quota"}
SPACES: list[dict[str, Any]] = json.loads(lzma.decompress(RECORDED.read_bytes()))
STRAY = "5" * 32
"""A candidate of which the id is no hash, with settings that no schedule reads."""

Connection = psycopg.Connection[Any]


def class_of(space: str) -> str:
    """One device for each space, with every feature of the target."""
    target = TargetKind.WEBGPU if space else TargetKind.WASM
    device = {"": "a", "any": "b"}.get(space, "c") * 16
    return f"{device}:{'r101' if space else 'r1'}-0:{'+'.join((target, *sorted(FEATURES[target])))}"


def today(told: dict[str, Any]) -> tuple[Candidate, ...]:
    workload = Workload.parse(respelled(told["workload"]))
    if told["space"]:
        return lite_space(workload, TargetKind.WEBGPU, GPU_MODELS[told["space"]])
    return lite_space(workload, TargetKind.WASM)


@pytest.fixture(scope="module")
def before(postgres: Postgres) -> str:
    """A database as migrations up to 0031 make it, with rows in every table; what was written
    between 0032 and 0037 stands as it is until 0037 comes."""
    url = postgres.create_database_before("0032")
    with psycopg.connect(url, autocommit=True) as db:
        _fill(db)
    return url


def _fill(db: Connection) -> None:
    db.execute(
        "INSERT INTO identity (id, network, operated) VALUES"
        " ('00000000-0000-0000-0000-000000000001', 'n', true)"
    )
    for space in ("", "any", "nvidia-hopper"):
        device_class = class_of(space)
        db.execute(
            "INSERT INTO device (device_id, cpu_architecture, logical_cores, gpu_vendor,"
            " gpu_architecture, gpu_model) VALUES (%s, 'x86', 2, '', '', %s)",
            (device_class[:16], space or "any"),
        )
        db.execute(
            "INSERT INTO device_class (device_class, device_id, engines, peak_gflops, identities)"
            " VALUES (%s, %s, '{}', 60, 1)",
            (device_class, device_class[:16]),
        )
        db.execute(
            "INSERT INTO agent_session (identity_id, device_id, device_class, engine_name,"
            " engine_version, peak_gflops, isolated)"
            " SELECT id, %s, %s, 'Chromium', '156', 60, true FROM identity",
            (device_class[:16], device_class),
        )
    for told in SPACES:
        _fill_space(db, told)
    db.execute(_OTHERS)


def _fill_space(db: Connection, told: dict[str, Any]) -> None:
    key, space = told["workload"], told["space"]
    target, device_class = "webgpu" if space else "wasm", class_of(space)
    ids = [each["id"] for each in told["candidates"]]
    db.execute("INSERT INTO workload VALUES (%s, %s) ON CONFLICT DO NOTHING", (key, told["flops"]))
    found = db.execute(
        "INSERT INTO tuning_job (workload_key, kind, state, space) VALUES (%s, %s, 'planned', %s)"
        " RETURNING id",
        (key, target, space),
    ).fetchone()
    assert found is not None
    (job,) = found
    for ordinal, each in enumerate(told["candidates"]):
        for sha256 in (*each.get("packs", ()), *filter(None, (each.get("sha256"),))):
            db.execute(
                "INSERT INTO artifact (sha256, kind, body) VALUES (%s, %s, %s)"
                " ON CONFLICT DO NOTHING",
                (sha256, target, sha256.encode()),
            )
        db.execute(
            "INSERT INTO candidate (candidate_id, workload_key, kind, config, requires, state,"
            " artifact_sha256, manifest) VALUES (%s, %s, %s, %s, %s, %s, %s, %s)"
            " ON CONFLICT DO NOTHING",
            (
                *(each["id"], key, target, Jsonb(each["config"]), each["requires"]),
                *("compiled" if "sha256" in each else "waiting", each.get("sha256")),
                Jsonb(each["manifest"]) if "manifest" in each else None,
            ),
        )
        db.execute("INSERT INTO space_point VALUES (%s, %s, %s)", (job, ordinal, each["id"]))
    values = {"key": key, "class": device_class, "job": job, "ids": ids, "reversed": ids[::-1]}
    values |= {"first": ids[0], "second": ids[1], "pair": ids[1::-1]}
    psycopg.ClientCursor(db).execute(_OF_A_SPACE, values)


_OF_A_SPACE = """
INSERT INTO lease (session_id, identity_id, device_class, job_id, reference_id, seed, nonce,
    expires_at, closing) SELECT id, identity_id, device_class, %(job)s, %(first)s, 1, 'n',
    now(), true FROM agent_session WHERE device_class = %(class)s;
INSERT INTO lease_item (lease_id, candidate_id) SELECT l.id, unnest(%(pair)s::text[]) FROM lease
    l WHERE l.job_id = %(job)s;
INSERT INTO measurement (lease_id, candidate_id, identity_id, device_class, outcome, samples_ns,
    reference_ns, calls_per_sample, sampled_entries, detail, verdict, best_ns) SELECT l.id,
    i.candidate_id, l.identity_id, l.device_class, 'ok', '{1000}', '{2000}', 1, '{}', '',
    'verified', 1000 FROM lease l JOIN lease_item i ON i.lease_id = l.id WHERE l.job_id =
    %(job)s;
INSERT INTO ballot (identity_id, workload_key, device_class, candidate_ids, relative_times)
    SELECT id, %(key)s, %(class)s, %(pair)s, '{0.5,1}' FROM identity;
INSERT INTO zoo_entry (workload_key, device_class, version, candidate_id, state, ballots,
    weight, total_weight, relative_time, contenders) VALUES (%(key)s, %(class)s, 1, %(first)s,
    'retired', 1, 5, 5, 1, '{}'), (%(key)s, %(class)s, 2, %(second)s, 'confirmed', 1, 5, 5, 0.5,
    ARRAY[%(first)s]);
INSERT INTO evaluation_order (job_id, device_class, model_version, candidate_ids) VALUES
    (%(job)s, %(class)s, 1, %(reversed)s);
INSERT INTO outside_evidence (source, candidate_id, device, relative_time) VALUES ('a file',
    %(second)s, '', 1.5) ON CONFLICT DO NOTHING;
INSERT INTO common_kernel VALUES (%(key)s, 'common', '', 'r', %(second)s, 1.1, 1, 1) ON CONFLICT
    DO NOTHING;
INSERT INTO denied (artifact_sha256, device_class, denied, stage, evidence, operated) SELECT
    artifact_sha256, 'd:r:wasm', true, 'run', '', true FROM candidate WHERE candidate_id =
    %(first)s ON CONFLICT DO NOTHING;
INSERT INTO page_failure (artifact_sha256, device_class, network, workload_key, stage, detail)
    SELECT artifact_sha256, %(class)s, 'n', workload_key, 'run', '' FROM candidate WHERE
    candidate_id = %(first)s ON CONFLICT DO NOTHING;
INSERT INTO lost_device VALUES (%(class)s, %(key)s, 'it no longer answered');
INSERT INTO workload_set SELECT 'model', coalesce(max(position), 0) + 1, %(key)s FROM
    workload_set ON CONFLICT DO NOTHING;
INSERT INTO page_load VALUES (%(key)s, %(class)s, 3);
INSERT INTO ration VALUES ('2026-11-22', 'key', %(key)s || ' ' || %(class)s, 2);
"""

_OTHERS = """
INSERT INTO candidate (candidate_id, workload_key, kind, config, requires)
    VALUES (repeat('5', 32), 'pad:f32:m8n6p2', 'wasm', '{"side": 1}', '{}');
INSERT INTO application (name, key_hash, origins, jobs_per_day, sets, workloads_per_set)
    VALUES ('shop', repeat('0', 64), '{}', 1, 1, 1);
INSERT INTO application_set VALUES ('model', 1);
INSERT INTO application_job VALUES (1, 1);
INSERT INTO application_workload VALUES (1, 'slice:f32:m8n16s2k6');
INSERT INTO page_load VALUES ('model', 'a', 5);
INSERT INTO ration VALUES ('2026-11-22', 'network', 'n', 4);
INSERT INTO publication (serial) VALUES (7) ON CONFLICT (one) DO UPDATE SET serial = 7;
INSERT INTO cost_model (sha256, body, published, reason, evaluation, measurements)
    VALUES (repeat('1', 64), '', true, 'the first', '{}', 400);
"""


def _counts(db: Connection) -> dict[str, int]:
    names = db.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'").fetchall()
    counted = sql.SQL("SELECT count(*) FROM {}")
    return {
        name: next(iter(db.execute(counted.format(sql.Identifier(name))).fetchone() or ()))
        for (name,) in names
        if name != "migration"
    }


@pytest.fixture(scope="module")
def counts(before: str) -> dict[str, int]:
    with psycopg.connect(before) as db:
        return _counts(db)


@pytest.fixture(scope="module")
def upgraded(before: str, counts: dict[str, int]) -> str:
    assert counts
    assert migrate(before)[0] == "0032_field_words"
    return before


@pytest.fixture
def db(upgraded: str) -> Iterator[Connection]:
    with psycopg.connect(upgraded, autocommit=True) as connection:
        yield connection


def test_no_table_loses_a_row_and_none_was_empty(db: Connection, counts: dict[str, int]) -> None:
    assert [name for name, count in counts.items() if not count] == []
    after = _counts(db)
    assert {name: after[RENAMED.get(name, name)] for name in counts} == counts


@pytest.mark.parametrize("told", SPACES, ids=lambda told: f"{told['workload']} {told['space']}")
def test_spaces_are_those_that_the_tuner_lists_today(db: Connection, told: dict[str, Any]) -> None:
    space = today(told)
    known = {each.candidate_id: each for each in space}
    key, device_class = space[0].workload.key, class_of(told["space"])
    rows = db.execute(
        "SELECT c.candidate_id, c.workload_key, c.target, c.config, c.requires, c.artifact_sha256"
        " FROM tuning_job j JOIN space_point p ON p.job_id = j.id JOIN candidate c USING"
        " (candidate_id) WHERE j.workload_key = %s AND j.space = %s ORDER BY p.ordinal",
        (key, told["space"]),
    ).fetchall()
    ids = [row[0] for row in rows]
    pairs = zip(rows, told["candidates"], strict=True)
    listed = [(row, known[row[0]], was) for row, was in pairs if row[0] in known]
    assert listed, "the tuner has dropped some since, and not all"
    for row, each, was in listed:
        settings = (each.candidate_id, key, each.target, dict(each.config), list(each.requires))
        assert row == (*settings, was.get("sha256"))
    values = (key, device_class)
    assert db.execute(
        "SELECT candidate_ids FROM ballot WHERE workload_key = %s AND device_class = %s", values
    ).fetchall() == [(ids[1::-1],)]
    assert db.execute(
        "SELECT candidate_id, contenders FROM zoo_entry WHERE workload_key = %s AND"
        " device_class = %s ORDER BY version",
        values,
    ).fetchall() == [(ids[0], []), (ids[1], [ids[0]])]
    assert db.execute(
        "SELECT o.candidate_ids, l.reference_id, l.complete, array_agg(m.candidate_id ORDER BY"
        " m.candidate_id) FROM evaluation_order o JOIN tuning_job j ON j.id = o.job_id"
        " JOIN lease l ON l.job_id = j.id JOIN measurement m ON m.lease_id = l.id"
        " WHERE j.workload_key = %s AND j.space = %s GROUP BY 1, 2, 3",
        (key, told["space"]),
    ).fetchall() == [(ids[::-1], ids[0], True, sorted(ids[:2]))]


def test_every_entry_is_served_under_its_new_key_with_the_same_artifact(
    db: Connection, upgraded: str, settings: Settings
) -> None:
    settings = settings.model_copy(update={"database_url": upgraded})
    with TestClient(application(settings), client=("127.0.0.1", 5000)) as http:
        for told in SPACES:
            was = told["candidates"][1]
            workload = Workload.parse(respelled(told["workload"]))
            key, target = workload.key, "webgpu" if told["space"] else "wasm"
            (listed,) = db.execute(
                "SELECT array_agg(p.candidate_id ORDER BY p.ordinal) FROM tuning_job j JOIN"
                " space_point p ON p.job_id = j.id WHERE j.workload_key = %s AND j.space = %s",
                (key, told["space"]),
            ).fetchall()[0]
            answer = http.get(f"/v1/zoo/{key}/{class_of(told['space'])}")
            assert answer.status_code == 200, answer.text
            (entry,) = (each for each in answer.json()["entries"] if each["workload"] == key)
            served = entry[target]
            assert (served["level"], served["state"]) == ("exact", "confirmed")
            kernel = served["kernel"]
            assert (kernel["sha256"], kernel["candidate"]) == (was["sha256"], listed[1])
            assert kernel["target"] == target
            names = [each["name"] for each in kernel["tensors"]]
            assert names == [each.name for each in workload.tensors]
            assert [each["pack"]["sha256"] for each in kernel["layouts"]] == was["packs"]
            body = http.get(kernel["url"])
            assert body.content == was["sha256"].encode()


def test_names_that_are_text_are_spelled_anew(db: Connection) -> None:
    old = "(r[0-9]+q[0-9]+s[0-9]+p[0-9]+|n[0-9]+s[0-9]+k[0-9]+|n[0-9]+p[0-9]+)"
    for table, column in (
        *((table, "workload_key") for table in ("workload_set", "lost_device", "page_failure")),
        *((table, "workload_key") for table in ("common_kernel", "application_workload")),
        *(("page_load", "name"), ("lending_quota", "name"), ("workload", "key")),
    ):
        asked = sql.SQL("SELECT {} FROM {} WHERE {} ~ %s").format(
            *map(sql.Identifier, (column, table, column))
        )
        assert db.execute(asked, (old,)).fetchall() == [], table
    loads = dict(db.execute("SELECT name, loads FROM page_load WHERE name !~ 'f16'").fetchall())
    assert loads["model"] == 5
    assert loads["slice:f32:m8n16start2size6"] >= 3, "a test that asks for it counts, too"
    quotas = dict(db.execute("SELECT name, candidates FROM lending_quota").fetchall())
    assert quotas["n"] == 4
    assert quotas[f"pad:f32:m8n6pad2 {class_of('')}"] == 2


def test_a_candidate_that_is_no_hash_of_its_settings_keeps_its_id(db: Connection) -> None:
    found = db.execute(
        "SELECT workload_key, config FROM candidate WHERE candidate_id = %s", (STRAY,)
    ).fetchone()
    assert found == ("pad:f32:m8n6pad2", {"side": 1})


def test_models_are_withdrawn_and_the_next_is_due(db: Connection) -> None:
    (found,) = db.execute("SELECT published, measurements, reason FROM cost_model").fetchall()
    assert found[:2] == (False, 0)
    assert found[2].startswith("the first; withdrawn")
    (serial,) = db.execute("SELECT serial FROM publication").fetchone() or (0,)
    assert serial > 7
