"""Models: their files, what registers them, and what a page of a class is given."""

import asyncio
import json
import os
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import ExitStack
from dataclasses import asdict, replace
from math import log2
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import onnx
import pytest
from fastapi.testclient import TestClient
from httpx2 import ASGITransport, AsyncClient
from psycopg_pool import AsyncConnectionPool
from pydantic import SecretStr
from starlette.requests import ClientDisconnect

from cli.stack.ports import free_port
from fixtures.analytic import CORES
from fixtures.encoder import Encoder
from fixtures.rows import lend_all
from kernelzoo.domain.ballot import Ballot, BallotLine
from kernelzoo.domain.device import DeviceClass, Hardware
from kernelzoo.domain.gpu import space_of
from kernelzoo.domain.measurement import Measurement, Outcome, Preparation, Verdict
from kernelzoo.domain.plan import PlanCall
from kernelzoo.domain.target import TargetKind
from kernelzoo.domain.workload import Workload
from kernelzoo.domain.zoo import EntryState, Evidence
from kernelzoo.formats.plans import plan_bytes, plan_document
from kernelzoo.settings import Settings
from kernelzoo.signing import Sealed, Signer, new_seed
from kernelzoo.store import (
    ballots,
    census,
    denials,
    measurements,
    models,
    notifications,
    orders,
    zoo,
)
from kernelzoo.store.blocking import execute, fetch_all, fetch_one
from kernelzoo.store.measurements import Judged
from services.aggregator.publishing import Rule
from services.gateway.app import application
from services.gateway.blobs import KEPT_S, Blobs
from services.gateway.problems import Refusal
from services.gateway.state import State
from services.gateway.streams import LOOKED_EVERY_S, MOST, MOST_OF_NETWORK, Stream
from tests.browser.model_plans import evaluated_programs
from tests.database.client import OPERATOR, open_agent
from tests.database.conftest import Connection
from tests.database.rows_read import rows_read
from tests.database.test_shedding import full
from tests.reports import all_ok
from tests.running import eventually
from tests.scraping import scrape
from tests.tiny_model import (
    TinyModel,
    digest,
    identity_model,
    register,
    send,
    tiny_model,
    tiny_with_f16,
    with_plan,
)
from tests.unit.graph.test_ranges import ONE, planned
from workers import compiling
from workers.aggregating import tally
from workers.counting import take_census

SEED = new_seed()
CLASS = "0123456789abcdef:r0-0:wasm+relaxed-simd+simd128"
TINY = tiny_model()
MATMUL, RELU = TINY.plan.kernels
GPU_CLASS = "0123456789abcdef:r101-0:webgpu"
LONGER = tiny_model(6)
NVIDIA = Hardware(
    cpu_architecture="x86", logical_cores=8, gpu_vendor="nvidia", gpu_architecture="turing"
)

Compile = Callable[[], None]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "models"


@pytest.fixture
def settings(settings: Settings, folder: Path) -> Settings:
    changes = {"signing_key": SecretStr(SEED), "models_dir": folder, "max_blob_bytes": 1 << 16}
    return settings.model_copy(update=changes)


@pytest.fixture
def compiled(db: Connection) -> Compile:
    """Plans all spaces and compiles the first two candidates of each, as compile workers do."""

    def compile_all() -> None:
        jobs = db.execute("SELECT id FROM tuning_job WHERE state = 'waiting'").fetchall()
        for (job_id,) in jobs:
            compiling.plan_space(db, job_id, 2)
            compile_first(db, job_id)

    return compile_all


def compile_first(db: Connection, job_id: int) -> None:
    """The first two candidates of a space."""
    first = db.execute(
        "SELECT candidate_id FROM space_point WHERE job_id = %s ORDER BY ordinal LIMIT 2", (job_id,)
    ).fetchall()
    compiling.compile_batch(db, [candidate_id for (candidate_id,) in first])


@pytest.fixture
def served(http: TestClient, compiled: Compile) -> TestClient:
    assert register(http, TINY).status_code == 201
    compiled()
    return http


def stored(folder: Path) -> set[str]:
    return {path.name for path in folder.rglob("*") if path.is_file()}


def given(http: TestClient, query: str = "") -> dict[str, Any]:
    answer = http.get(f"/v1/models/tiny/{CLASS}{query}")
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


@pytest.mark.usefixtures("one_issue_time")
def test_a_page_is_given_plan_and_kernels_in_one_signed_answer(served: TestClient) -> None:
    answer = served.get(f"/v1/models/tiny/{CLASS}?sequence=4")
    found = answer.json()
    assert found["plan"] == json.loads(json.dumps(plan_document(TINY.plan)))
    assert (found["model"], found["name"], found["missing"]) == (1, "tiny", [])
    assert set(found["kernels"]) == {MATMUL, RELU}
    assert found["kernels"][RELU]["level"] == "default"
    assert Sealed.of(answer.content).signed_by(Signer.of(SEED).public_keys)
    functions = found["module"]["functions"]
    matmul = found["kernels"][MATMUL]["kernel"]
    packs = [each["pack"]["sha256"] for each in matmul["layouts"]]
    assert functions[matmul["sha256"]] == "f0"
    assert set(functions) >= {found["kernels"][RELU]["kernel"]["sha256"], *packs}
    module = served.get(found["module"]["url"])
    assert digest(module.content) == found["module"]["sha256"]
    assert module.headers["Content-Type"] == "application/wasm"
    assert b"f0" in module.content
    for name, body in (("weights", TINY.weights), ("golden", TINY.golden)):
        assert served.get(found[name]["url"]).content == body
    tag = {"If-None-Match": answer.headers["ETag"]}
    assert served.get(f"/v1/models/tiny/{CLASS}?sequence=4", headers=tag).status_code == 304
    for refused in ("identity", "gzip;q=0, identity"):
        plain = served.get(f"/v1/models/tiny/{CLASS}", headers={"Accept-Encoding": refused})
        assert (plain.content, plain.headers.get("Content-Encoding")) == (answer.content, None)
    assert answer.headers["Content-Encoding"] == "gzip"


def test_what_is_not_compiled_yet_is_missing_until_it_is(
    http: TestClient, compiled: Compile
) -> None:
    register(http, TINY)
    before = given(http)
    assert (before["missing"], before["module"]) == ([MATMUL, RELU], None)
    compiled()
    eventually(lambda: given(http)["missing"] == [], "the kernels")


PLAIN = "0000000000000000:r0-0:javascript"


def test_a_page_without_webassembly_has_kernels_compiled_for_it(
    served: TestClient, compiled: Compile
) -> None:
    """They are compiled when it asks; nobody else does. They are the defaults, linked, and no one
    measures them."""

    def asked() -> dict[str, Any]:
        return dict(served.get(f"/v1/models/tiny/{PLAIN}").json())

    def alone() -> dict[str, Any]:
        return dict(served.get(f"/v1/zoo/{RELU}/{PLAIN}").json())

    assert alone()["missing"] == [RELU]
    compiled()
    eventually(lambda: alone()["missing"] == [], "the kernel")
    assert asked()["missing"] == [MATMUL]
    compiled()
    eventually(lambda: asked()["missing"] == [], "the kernels")
    found = asked()
    kernels = {key: each["kernel"] for key, each in found["kernels"].items()}
    assert {each["target"] for each in kernels.values()} == {"javascript"}
    assert set(found["module"]["functions"]) == {each["sha256"] for each in kernels.values()}
    module = served.get(found["module"]["url"])
    assert (module.status_code, module.headers["Content-Type"].split(";")[0]) == (
        200,
        "text/javascript",
    )
    assert digest(module.content) == found["module"]["sha256"]
    assert module.content.startswith(b"export const f0 = (memory) => {")
    (entry,) = alone()["entries"]
    assert entry["javascript"]["kernel"] == kernels[RELU]
    assert (entry["wasm"], entry["advice"]["target"]) == (None, "javascript")


def test_a_plan_is_chosen_by_the_dimensions_that_are_asked(http: TestClient) -> None:
    assert register(http, TINY, LONGER).status_code == 201
    assert given(http, "?sequence=6")["dimensions"] == {"sequence": 6}
    which = http.get(f"/v1/models/tiny/{CLASS}")
    assert (which.status_code, "?sequence=4 or ?sequence=6" in which.json()["detail"]) == (
        422,
        True,
    )
    none = http.get(f"/v1/models/tiny/{CLASS}?sequence=5")
    assert (none.status_code, "ask for ?sequence=4" in none.json()["detail"]) == (404, True)
    unknown = http.get(f"/v1/models/tiny/{CLASS}?sequence=4&other=None")
    assert unknown.status_code == 404, "or each made-up name would have an answer built for it"
    assert http.get(f"/v1/models/other/{CLASS}").status_code == 404
    document = http.get("/v1/models/tiny").json()
    assert [plan["dimensions"] for plan in document["plans"]] == [{"sequence": 4}, {"sequence": 6}]
    assert document["plans"][0]["inputs"] == [
        {"name": "x", "dtype": "float32", "shape": [4, 8], "open": []}
    ]
    (listed,) = http.get("/v1/models").json()["models"]
    assert (listed["name"], listed["plans"], listed["workloads"]) == ("tiny", 2, 2)


def test_a_plan_of_a_range_is_chosen_by_each_extent_of_it(
    http: TestClient, db: Connection, folder: Path, tmp_path: Path
) -> None:
    path = tmp_path / "encoder.onnx"
    onnx.save(Encoder(tokens=None, layers=1, hidden=16, inner=16).model(), path)
    model = planned(path, batch=ONE)
    (plan,), (golden,) = model.plans, model.golden
    made = TinyModel(plan, b"".join(model.weights.blocks()), golden)
    programs = {each.key: str(each.program) for each in evaluated_programs(model.workloads)}
    assert register(http, made, programs=programs).status_code == 201
    page = f"/v1/models/{plan.model}/{CLASS}"
    (told,) = http.get(f"/v1/models/{plan.model}").json()["plans"]
    axes = {each["name"]: each["open"] for each in (*told["inputs"], *told["outputs"])}
    batch = {"place": 0, "dimension": "batch", "most": 5, "step": 1}
    length = {"place": 1, "dimension": "sequence", "most": 64, "step": 1}
    assert axes == {
        "input_ids": [batch, length],
        "attention_mask": [batch, length],
        "token_type_ids": [batch, length],
        "last_hidden_state": [batch, length],
        "pooled": [batch],
    }
    rows = db.execute("SELECT workload_key FROM model_workload WHERE calls = 0").fetchall()
    of_buckets = {plan.kernels[own] for _, own in plan.bucket_kernels}
    assert {key for (key,) in rows} == of_buckets != set()
    jobs = {each["workload"] for each in http.get("/v1/jobs?limit=200").json()["jobs"]}
    assert of_buckets <= jobs
    for query in ("", "?sequence=32", "?sequence=1&batch=5", "?batch=2", "?sequence=64"):
        assert http.get(page + query).json()["dimensions"] == {"sequence": 64, "batch": 5}
    for query in ("sequence=100", "sequence=0", "sequence=032", "sequence=²", "batch=6", "other=3"):
        refused = http.get(f"{page}?{query}")
        assert refused.status_code == 404, query
        assert refused.json()["detail"].endswith("ask for ?batch=1..5&sequence=1..64")
    for file in folder.glob(f"*/{digest(plan_bytes(plan))}"):
        file.unlink()
    assert http.get(f"{page}?sequence=31").status_code == 503


def test_a_model_that_calls_nothing_is_listed_and_served_beside_others(served: TestClient) -> None:
    """It has no operations, of which a sum is null: every list of models was answered with 500."""
    assert register(served, identity_model()).status_code == 201
    listed = {each["name"]: each for each in served.get("/v1/models").json()["models"]}
    assert (listed["identity"]["workloads"], listed["identity"]["flops"]) == (0, 0)
    assert listed["tiny"]["flops"] > 0
    page = served.get(f"/v1/models/identity/{CLASS}")
    assert (page.status_code, page.json()["kernels"], page.json()["missing"]) == (200, {}, [])
    for path in ("", "/readiness", "/coverage"):
        assert served.get(f"/v1/models/identity{path}").status_code == 200


def test_a_model_of_more_operations_than_a_number_holds_is_listed(
    served: TestClient, owner: Connection
) -> None:
    owner.execute("UPDATE workload SET flops = 9000000000000000000")
    owner.execute("UPDATE model_workload SET calls = 1000")
    (listed,) = served.get("/v1/models").json()["models"]
    assert listed["flops"] == 2**63 - 1


@pytest.mark.parametrize("name", ["floor(height/8)", "input:0.0", "a=b & c", "?", "批次"])
def test_a_plan_is_chosen_by_a_dimension_of_any_name(http: TestClient, name: str) -> None:
    """Exporters call them so; an extent may be 0, as that of a cache that is empty."""
    one, other = (
        replace(made, plan=replace(made.plan, dimensions={name: extent}))
        for made, extent in ((TINY, 0), (LONGER, 2))
    )
    assert register(http, one, other).status_code == 201
    for extent in (0, 2):
        found = given(http, f"?{urlencode({name: extent})}")
        assert found["dimensions"] == {name: extent}


def test_the_same_again_changes_nothing_and_another_needs_to_say_so(
    http: TestClient, folder: Path
) -> None:
    first = register(http, TINY)
    again = register(http, TINY)
    assert (first.status_code, again.status_code) == (201, 200)
    assert (first.json()["jobs"], again.json()["jobs"]) == (2, 0)
    assert again.json()["model"] == first.json()["model"]
    refused = register(http, LONGER)
    assert (refused.status_code, "--replace" in refused.json()["detail"]) == (409, True)
    assert given(http)["dimensions"] == {"sequence": 4}
    assert register(http, LONGER, replace=True).status_code == 201
    eventually(lambda: given(http)["dimensions"] == {"sequence": 6}, "the other model")
    # What both are made of stays.
    assert stored(folder) == {digest(body) for body in LONGER.files}


def test_a_removed_model_leaves_no_file_and_no_job_of_its_own(
    served: TestClient, db: Connection, folder: Path
) -> None:
    served.post("/v1/jobs", json={"workload": RELU}, headers=OPERATOR)
    assert served.delete("/v1/models/tiny", headers=OPERATOR).status_code == 204
    assert stored(folder) == set()
    eventually(
        lambda: served.get(f"/v1/models/tiny/{CLASS}").status_code == 404, "the model is gone"
    )
    assert served.delete("/v1/models/tiny", headers=OPERATOR).status_code == 404
    jobs = db.execute("SELECT workload_key, cancelled_at IS NULL FROM tuning_job").fetchall()
    # Somebody had asked for one of them by itself.
    assert dict(jobs) == {MATMUL: False, RELU: True}
    assert register(served, TINY).status_code == 201
    assert db.execute("SELECT FROM tuning_job WHERE cancelled_at IS NOT NULL").fetchall() == []


def test_a_file_that_is_not_whole_or_not_of_its_hash_is_not_there(
    http: TestClient, folder: Path
) -> None:
    body = b"a file of some bytes"
    url = f"/v1/blobs/{digest(body)}"
    assert http.put(url, content=body).status_code == 401
    wrong = http.put(url, content=body[:-1], headers=OPERATOR)
    assert (wrong.status_code, "send the file again" in wrong.json()["detail"]) == (422, True)

    async def breaks() -> AsyncIterator[bytes]:
        yield body[:4]
        raise ClientDisconnect

    with pytest.raises(Refusal, match="send it again"):
        asyncio.run(Blobs(folder=folder, limit_bytes=99).store(digest(body), None, breaks()))
    for large in (b"x" * (1 << 17), iter([b"x" * (1 << 16), b"x"])):
        too_large = http.put(url, content=large, headers=OPERATOR)
        assert (too_large.status_code, "--weights-url" in too_large.json()["detail"]) == (413, True)
    assert http.get(url).status_code == 404
    assert stored(folder) == set()


def test_a_file_is_read_in_parts_and_kept_for_ever(http: TestClient) -> None:
    send(http, TINY)
    url = f"/v1/blobs/{digest(TINY.weights)}"
    part = http.get(url, headers={"Range": "bytes=4-11"})
    assert (part.status_code, part.content) == (206, TINY.weights[4:12])
    assert part.headers["Content-Range"] == f"bytes 4-11/{len(TINY.weights)}"
    assert "immutable" in part.headers["Cache-Control"]
    assert part.headers["ETag"] == f'"{digest(TINY.weights)}"'
    assert http.get(url, headers={"If-None-Match": part.headers["ETag"]}).status_code == 304
    asked = {"Origin": "https://a.example", "Access-Control-Request-Method": "GET"}
    assert "Range" in http.options(url, headers=asked).headers["Access-Control-Allow-Headers"]


def test_files_that_no_model_names_go_after_a_day(http: TestClient, folder: Path) -> None:
    forgotten, recent = tiny_model(3), tiny_model(5)
    send(http, forgotten, recent)
    old = folder / digest(forgotten.golden)[:2] / digest(forgotten.golden)
    incoming = folder / "incoming" / "left-by-a-crash"
    incoming.touch()
    long_ago = time.time() - KEPT_S - 1
    for path in (old, incoming):
        os.utime(path, (long_ago, long_ago))
    register(http, TINY)
    assert digest(recent.golden) in stored(folder)
    assert stored(folder).isdisjoint({old.name, incoming.name})


def test_a_plan_that_does_not_fit_registers_nothing(http: TestClient) -> None:
    short = PlanCall(kernel=1, tensors=(0, 2), label="activation")
    faults = {
        "the model 'other', not 'tiny'": with_plan(TINY, model="other"),
        "other tensors than it takes": with_plan(TINY, calls=(TINY.plan.calls[0], short)),
        "is unknown": with_plan(TINY, kernels=(MATMUL, "nonsense:f32:n64")),
    }
    for fault, model in faults.items():
        send(http, model)
        body = {"source": "x", "plans": [model.request]}
        refused = http.put("/v1/models/tiny", json=body, headers=OPERATOR)
        assert (refused.status_code, fault in refused.json()["detail"]) == (422, True), refused.text
    body = {"source": "x", "plans": [{"plan": digest(plan_bytes(TINY.plan)), "weights": "0" * 64}]}
    send(http, TINY)
    missing = http.put("/v1/models/tiny", json=body, headers=OPERATOR)
    assert (missing.status_code, "PUT /v1/blobs/" in missing.json()["detail"]) == (409, True)
    assert http.put("/v1/models/tiny", json=body).status_code == 401
    twice = {"source": "x", "plans": [TINY.request, TINY.request]}
    assert http.put("/v1/models/tiny", json=twice, headers=OPERATOR).status_code == 422
    assert http.get("/v1/models").json() == {"models": []}
    assert http.get("/v1/jobs").json()["jobs"] == []


def test_weights_may_lie_on_the_authors_host(http: TestClient) -> None:
    send(http, TINY)
    away = "https://author.example/weights.bin"
    plan = {"plan": TINY.request["plan"], "weights": None, "weights_url": away}
    body = {"source": "x", "plans": [plan]}
    assert http.put("/v1/models/tiny", json=body, headers=OPERATOR).status_code == 201
    assert given(http)["weights"] == {"url": away, "sha256": None, "size_bytes": len(TINY.weights)}


def test_a_model_is_served_to_a_gpu_once_it_is_tuned_for_both_targets(
    served: TestClient, db: Connection, compiled: Compile
) -> None:
    address = f"/v1/models/tiny/{GPU_CLASS}"
    assert set(served.get(address).json()["missing"]) == {MATMUL, RELU}
    again = register(served, TINY, targets=("wasm", "webgpu"))
    assert (again.status_code, again.json()["jobs"]) == (200, 2)
    compiled()
    found = served.get(address).json()
    assert (found["device_class"], found["module"], found["missing"]) == (GPU_CLASS, None, [])
    assert found["plan"] == given(served)["plan"]
    for each in found["kernels"].values():
        assert each["kernel"]["dispatches"]
        assert b"@compute" in served.get(each["kernel"]["url"]).content
    agent = open_agent(served)
    while (lent := agent.lease()).status_code == 200:
        agent.report(lent.json(), all_ok(lent.json()))
    for key, best_ns in ((RELU, 1e6), (MATMUL, 1e5)):
        confirm(db, agent.device_class, key, best_ns)
    execute(db, models.prioritise(RELU))
    rows = db.execute("SELECT workload_key, target, priority FROM tuning_job").fetchall()
    shares = {(key, target): priority for key, target, priority in rows}
    matmul, relu = (Workload.parse(key).flops for key in (MATMUL, RELU))
    assert shares[RELU, "wasm"] == pytest.approx(10 / 11), "by the times of its own target"
    assert shares[RELU, "webgpu"] == pytest.approx(relu / (matmul + relu))


def test_a_gpu_is_given_the_plan_of_f16_and_every_other_page_that_of_f32(
    http: TestClient, db: Connection
) -> None:
    plain, halved, programs = tiny_with_f16()
    alone = register(http, halved, programs=programs, targets=("webgpu",))
    assert (alone.status_code, "send that of f32, too" in alone.json()["detail"]) == (422, True)
    made = register(http, plain, halved, programs=programs, targets=("wasm", "webgpu"))
    assert made.status_code == 201, made.text
    assert [each["dtype"] for each in made.json()["model"]["plans"]] == ["f32", "f16"]
    for device_class, wanted in ((CLASS, plain), (GPU_CLASS, halved)):
        found = http.get(f"/v1/models/tiny/{device_class}").json()
        assert found["plan"] == json.loads(plan_bytes(wanted.plan))
        assert found["weights"]["sha256"] == digest(wanted.weights)
    jobs = set(db.execute("SELECT target, workload_key FROM tuning_job").fetchall())
    assert jobs == {
        *(("wasm", key) for key in plain.plan.kernels),
        *(("webgpu", key) for key in halved.plan.kernels),
    }


def test_a_plan_that_was_stored_with_a_former_format_is_given_with_its_needs(
    http: TestClient,
) -> None:
    _, _, rest = plan_bytes(TINY.plan).partition(b'"needs":[],')
    former = b'{"format":1,' + rest
    send(http, TINY)
    assert http.put(f"/v1/blobs/{digest(former)}", content=former, headers=OPERATOR).is_success
    body = {"source": "x", "plans": [TINY.request | {"plan": digest(former)}]}
    made = http.put("/v1/models/tiny", json=body, headers=OPERATOR)
    assert made.status_code == 201, made.text
    found = http.get(f"/v1/models/tiny/{CLASS}").json()
    assert found["plan"] == json.loads(plan_bytes(TINY.plan))
    (listed,) = http.get("/v1/models/tiny").json()["plans"]
    assert http.get(listed["plan"]["url"]).content == former, "its file stays as it was sent"


def test_agents_go_to_what_takes_most_of_an_inference_first(
    served: TestClient, db: Connection
) -> None:
    agent = open_agent(served)
    assert agent.lease().json()["workload"] == MATMUL
    shares = dict(db.execute("SELECT workload_key, priority FROM tuning_job").fetchall())
    matmul, relu = (Workload.parse(key).flops for key in (MATMUL, RELU))
    assert shares[MATMUL] == pytest.approx(matmul / (matmul + relu))
    # Who asks for one by itself does not wait for models.
    served.post("/v1/jobs", json={"workload": RELU}, headers=OPERATOR)
    assert open_agent(served).lease().json()["workload"] == RELU


def test_what_takes_most_of_an_inference_is_compiled_first(
    http: TestClient, db: Connection
) -> None:
    assert register(http, TINY).status_code == 201
    rows = db.execute("SELECT id, workload_key, priority FROM tuning_job ORDER BY priority")
    (relu, _, share), (matmul, largest, _) = rows.fetchall()
    assert (largest, share < 1 / 4) == (MATMUL, True)
    # What is sent first is not compiled first for that; the defaults of both are.
    messages = [
        (message.place, job)
        for job in (relu, matmul)
        for message in compiling.plan_space(db, job, 2)
        if message.place > 0
    ]
    order = [job for _, job in sorted(messages, key=lambda message: message[0])]
    assert order.index(relu) == round(-log2(share)), "so many batches of the other may win more"
    assert set(order[: order.index(relu)]) == {matmul}


def test_what_is_foretold_to_win_most_is_tuned_first(served: TestClient, db: Connection) -> None:
    agent = open_agent(served)
    jobs = dict(db.execute("SELECT workload_key, id FROM tuning_job").fetchall())
    # Of the product nothing is foretold to be faster than its default, of the other one kernel is.
    for key, cost in ((MATMUL, 0.0), (RELU, -1.0)):
        space = db.execute(
            "SELECT candidate_id FROM space_point WHERE job_id = %s ORDER BY ordinal", [jobs[key]]
        )
        ids = [candidate_id for (candidate_id,) in space.fetchall()]
        costs = [3.0 for _ in ids]
        costs[-1] += cost
        device_class = DeviceClass.parse(agent.device_class)
        execute(db, orders.put_order(jobs[key], device_class, 1, ids, costs))
    execute(db, models.prioritise(RELU))
    shares = dict(db.execute("SELECT workload_key, priority FROM tuning_job").fetchall())
    matmul, relu = (Workload.parse(key).flops for key in (MATMUL, RELU))
    assert shares == {
        RELU: pytest.approx(relu / (matmul + relu) / 2),
        MATMUL: pytest.approx(models.LEAST_GAIN * matmul / (matmul + relu)),
    }


def test_measured_times_outweigh_operations(served: TestClient, db: Connection) -> None:
    agent = open_agent(served)
    while (lent := agent.lease()).status_code == 200:
        agent.report(lent.json(), all_ok(lent.json()))
    for key, best_ns in ((RELU, 1e6), (MATMUL, 1e5)):
        confirm(db, agent.device_class, key, best_ns)
    execute(db, models.prioritise(RELU))
    shares = dict(db.execute("SELECT workload_key, priority FROM tuning_job").fetchall())
    assert shares == {MATMUL: pytest.approx(1 / 11), RELU: pytest.approx(10 / 11)}
    assert rows_read(db, models.prioritise(RELU), "measurement") == 0
    (covered,) = coverage(served)
    assert (covered["workloads"], covered["confirmed"], covered["confirmed_flops"]) == (2, 2, 1.0)
    assert (covered["expected_ms"], covered["measured"]) == (pytest.approx(1.1), 1.0)
    told = served.get(f"/v1/models/tiny/{agent.device_class}/timeline?sequence=4").json()
    assert [(swap["workload"], swap["served"]) for swap in told["swaps"]] == [
        (RELU, True),
        (MATMUL, True),
    ]
    # Both take half of the default kernel's time.
    assert told["swaps"][-1]["expected_ms"] == pytest.approx(told["first_ms"] / 2)
    assert served.get(f"/v1/models/tiny/{CLASS}/timeline").json()["first_ms"] is None
    assert served.get(f"/v1/models/other/{CLASS}/timeline").status_code == 404


def confirm(
    db: Connection,
    device_class: str,
    key: str,
    best_ns: float,
    state: EntryState = EntryState.CONFIRMED,
) -> None:
    """Serves the class one of the kernels that it has measured, as if all took so long."""
    db.execute(
        "UPDATE measurement m SET verdict = 'verified', best_ns = %s FROM candidate c"
        " WHERE c.candidate_id = m.candidate_id AND c.workload_key = %s",
        (best_ns, key),
    )
    row = db.execute(
        "SELECT candidate_id FROM measurement JOIN candidate USING (candidate_id)"
        " WHERE workload_key = %s LIMIT 1",
        (key,),
    ).fetchone()
    assert row is not None
    evidence = Evidence(ballots=5, weight=20, total_weight=25, relative_time=0.5)
    of = DeviceClass.parse(device_class)
    execute(db, zoo.publish(key, of, row[0], state, evidence))


def coverage(http: TestClient) -> list[dict[str, Any]]:
    answer = http.get("/v1/models/tiny/coverage")
    assert answer.status_code == 200, answer.text
    return list(answer.json()["coverage"])


def test_metrics_tell_of_each_model_how_far_it_is_confirmed(
    settings: Settings, compiled: Compile, db: Connection
) -> None:
    port = free_port()
    exported = settings.model_copy(update={"metrics_port": port})
    series = 'kernelzoo_model_confirmed_ratio{{model="{}"}}'.format
    with TestClient(application(exported), client=("127.0.0.1", 5000)) as http:
        assert register(http, TINY).status_code == 201
        compiled()
        agent = open_agent(http)
        while (lent := agent.lease()).status_code == 200:
            agent.report(lent.json(), all_ok(lent.json()))
        confirm(db, agent.device_class, MATMUL, 1e6)
        db.execute("INSERT INTO model (name, source) VALUES ('other', 'other.onnx')")
        put_loads(db, "model:tiny", agent.device_class, 3)
        (covered,) = coverage(http)
        assert 0 < covered["confirmed_flops"] < 1
        take_census(db)
        said = scrape(port)
        assert said[series("tiny")] == pytest.approx(covered["confirmed_flops"])
        assert said[series("other")] == 0
        put_loads(db, "model:tiny", CLASS, 1)
        take_census(db)
        assert scrape(port)[series("tiny")] == pytest.approx(0.75 * covered["confirmed_flops"])


def put_loads(db: Connection, name: str, device_class: str, loads: int) -> None:
    db.execute(
        "INSERT INTO page_load (name, device_class, loads) VALUES (%s, %s, %s)",
        (name, device_class, loads),
    )


def test_the_models_that_pages_ask_for_most_have_a_series(db: Connection) -> None:
    for name in ("first", "second", "third"):
        db.execute("INSERT INTO model (name, source) VALUES (%s, 'x.onnx')", (name,))
    put_loads(db, "model:second", CLASS, 2)
    put_loads(db, "model:third", CLASS, 5)
    assert {row.model for row in fetch_all(db, census.confirmed(2))} == {"third", "second"}


def test_what_nobody_has_measured_is_covered_by_nothing(served: TestClient) -> None:
    open_agent(served)
    (covered,) = coverage(served)
    assert (covered["confirmed"], covered["expected_ms"], covered["measured"]) == (0, None, 0)


def test_coverage_is_looked_up_once_for_all_who_ask_within_seconds(
    served: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Attack: what is added up over all classes is asked for again and again."""
    agent = open_agent(served)
    before = coverage(served)
    with monkeypatch.context() as away:
        away.setattr(AsyncConnectionPool, "connection", None)
        assert [coverage(served) for _ in range(20)] == [before] * 20
    assert {each["device_class"] for each in before} == {agent.device_class}


def test_a_miss_too_many_is_refused_early_as_for_manifests(served: TestClient) -> None:
    with full(served):
        refused = served.get(f"/v1/models/tiny/{CLASS}")
        assert (refused.status_code, refused.headers["Retry-After"]) == (503, "2")
        assert served.get("/v1/models/tiny/coverage").status_code == 200
        assert served.get("/v1/models/tiny").status_code == 200


def test_modules_that_nobody_asks_for_any_more_are_removed(
    served: TestClient, db: Connection
) -> None:
    url = given(served)["module"]["url"]
    execute(db, models.remove_unused_modules(30))
    assert served.get(url).status_code == 200
    db.execute("UPDATE linked_module SET linked_at = now() - interval '31 days'")
    execute(db, models.remove_unused_modules(30))
    assert served.get(url).status_code == 404
    assert db.execute("SELECT FROM linked_module").fetchall() == []


def test_a_gateway_without_a_folder_says_so(settings: Settings) -> None:
    from services.gateway.app import application

    with TestClient(application(settings.model_copy(update={"models_dir": None}))) as http:
        answer = http.put(f"/v1/blobs/{'0' * 64}", content=b"", headers=OPERATOR)
        assert (answer.status_code, "KERNELZOO_MODELS_DIR" in answer.json()["detail"]) == (
            503,
            True,
        )


def queued(http: TestClient, query: str, device_class: str = CLASS) -> list[dict[str, Any]]:
    answer = http.get(f"/v1/models/tiny/{device_class}/candidates?{query}")
    assert answer.headers["Content-Type"] == "application/x-ndjson", answer.text
    return [json.loads(line) for line in answer.text.splitlines()]


def test_candidates_are_sent_as_they_are_compiled_to_pages_without_a_session(
    served: TestClient, db: Connection
) -> None:
    *batches, end = queued(served, "wait_s=0")
    assert (end["end"], end["retry_s"]) == ("waited", 2)
    # The first of each is the default kernel, which the page has.
    assert {batch["workload"]: len(batch["candidates"]) for batch in batches} == {
        MATMUL: 1,
        RELU: 1,
    }
    assert batches[0]["workload"] == MATMUL, "most of an inference"
    kernel = batches[0]["candidates"][0]["kernel"]
    assert digest(served.get(kernel["url"]).content) == kernel["sha256"]
    assert kernel["candidate"] != given(served)["kernels"][MATMUL]["kernel"]["candidate"]

    def compile_later() -> None:
        time.sleep(1.0)
        # The last of its space that fuses products and sums, and the first that does not.
        waiting = db.execute(
            """
            SELECT DISTINCT ON (f.fused) c.candidate_id
            FROM candidate c JOIN space_point p USING (candidate_id),
                 LATERAL (SELECT 'relaxed-simd' = ANY (c.requires) AS fused) f
            WHERE c.state = 'waiting' AND c.workload_key = %s
            ORDER BY f.fused, CASE WHEN f.fused THEN -p.ordinal ELSE p.ordinal END
            """,
            [MATMUL],
        )
        compiling.compile_batch(db, [row[0] for row in waiting.fetchall()])

    late = threading.Thread(target=compile_later)
    late.start()
    *more, _ = queued(served, f"wait_s=3&after={time.time() + 0.5}")
    late.join()
    assert sum(len(batch.get("candidates", ())) for batch in more) == 2
    *all_sent, _ = queued(served, "wait_s=0")
    fused = [
        "relaxed-simd" in each["kernel"]["requires"]
        for batch in all_sent
        if batch["workload"] == MATMUL
        for each in batch["candidates"]
    ]
    assert len(set(fused)) == 2, "kernels of both kinds are compiled"
    assert fused == sorted(fused, reverse=True), "those that fuse products and sums first"
    refused = served.get(f"/v1/models/other/{CLASS}/candidates")
    assert (refused.status_code, refused.headers["Content-Type"]) == (
        404,
        "application/problem+json",
    )


def test_what_the_cost_model_foretells_is_sent_over_the_time_of_the_default_kernel(
    served: TestClient, db: Connection
) -> None:
    assert {each["predicted"] for each in _queued_of(served, MATMUL)} == {None}
    db.execute(
        """
        INSERT INTO evaluation_order (job_id, device_class, model_version, candidate_ids, costs)
        SELECT p.job_id, %s, 1, array_agg(p.candidate_id ORDER BY p.ordinal),
               array_agg(CASE WHEN p.candidate_id = d.candidate_id THEN 3.0 ELSE 2.0 END
                         ORDER BY p.ordinal)
        FROM tuning_job j JOIN space_point p ON p.job_id = j.id,
             default_kernel(j.workload_key, %s) d
        WHERE j.workload_key = %s AND j.target = 'wasm' GROUP BY p.job_id
        """,
        [CLASS, CLASS, MATMUL],
    )
    db.execute("SELECT pg_notify(%s, '')", (notifications.CANDIDATES,))
    time.sleep(LOOKED_EVERY_S)
    found = _queued_of(served, MATMUL)
    assert [(each["expected"], each["predicted"]) for each in found] == [(None, 0.5)]


def _queued_of(http: TestClient, key: str) -> list[dict[str, Any]]:
    lines = queued(http, "wait_s=0")
    return [each for line in lines if line.get("workload") == key for each in line["candidates"]]


def test_candidates_for_a_gpu_are_of_its_models_space_once_that_is_planned(
    served: TestClient, db: Connection, compiled: Compile
) -> None:
    register(served, TINY, targets=("wasm", "webgpu"))
    assert queued(served, "wait_s=0", GPU_CLASS)[-1]["end"] == "waited"
    compiled()
    any_gpu = _sent(served, "wait_s=0", GPU_CLASS)
    assert {key for key, _ in any_gpu} == {MATMUL, RELU}
    assert {kernel["target"] for _, kernel in any_gpu} == {"webgpu"}
    shown = f"wait_s=0&hardware={quote(json.dumps(asdict(NVIDIA)))}"
    nvidia = f"{NVIDIA.device_id}:r101-0:webgpu"
    assert _sent(served, shown, nvidia) == any_gpu, "before anybody asked for a space of its own"
    given_now = served.get(f"/v1/models/tiny/{GPU_CLASS}").json()["kernels"]
    db.execute(
        """
        WITH job AS (
            INSERT INTO tuning_job (workload_key, target, space, state)
            VALUES (%s, 'webgpu', %s, 'planned') RETURNING id
        )
        INSERT INTO space_point (job_id, candidate_id, ordinal) SELECT id, %s, 0 FROM job
        """,
        (RELU, space_of(TargetKind.WEBGPU, NVIDIA), given_now[RELU]["kernel"]["candidate"]),
    )
    db.execute("SELECT pg_notify(%s, '')", (notifications.CANDIDATES,))
    own = {key for key, _ in _sent(served, shown, nvidia)}
    assert own == {MATMUL}, "the space of its own has nothing but the default kernel"
    assert _sent(served, "wait_s=0", GPU_CLASS) == any_gpu


def _sent(http: TestClient, query: str, device_class: str) -> list[tuple[str, dict[str, Any]]]:
    """Kernels that are in no memory of the gateway, by workload."""
    time.sleep(LOOKED_EVERY_S)
    *batches, _ = queued(http, query, device_class)
    return [
        (batch["workload"], each["kernel"]) for batch in batches for each in batch["candidates"]
    ]


def test_there_is_nothing_to_send_where_a_class_has_confirmed_all(
    served: TestClient, db: Connection
) -> None:
    for key in (MATMUL, RELU):
        row = db.execute(
            "SELECT candidate_id FROM candidate WHERE workload_key = %s AND state = 'compiled'",
            (key,),
        ).fetchone()
        assert row is not None
        evidence = Evidence(ballots=5, weight=20, total_weight=25, relative_time=0.5)
        of = DeviceClass.parse(CLASS)
        execute(db, zoo.publish(key, of, row[0], EntryState.CONFIRMED, evidence))
    assert queued(served, "") == [{"end": "settled", "retry_s": 60, "cursor": ""}]
    tag = {"If-None-Match": '"settled"'}
    path = f"/v1/models/tiny/{CLASS}/candidates"
    assert served.get(path, headers=tag).status_code == 304
    given(served)
    state: State = served.app.state.kernelzoo  # type: ignore[attr-defined]
    asked = state.streams.look
    state.streams.look = None  # type: ignore[method-assign, assignment]
    assert served.get(path, headers=tag).status_code == 304, "from memory"
    state.streams.look = asked  # type: ignore[method-assign]


def test_a_network_has_few_streams_open(served: TestClient) -> None:
    state: State = served.app.state.kernelzoo  # type: ignore[attr-defined]
    network = state.tokens.network("127.0.0.1")
    with ExitStack() as others:
        for _ in range(MOST_OF_NETWORK):
            others.enter_context(state.streams.counted(network, Stream(yields=False)))
        refused = served.get(f"/v1/models/tiny/{CLASS}/candidates?wait_s=0")
        assert (refused.status_code, refused.headers["Retry-After"]) == (429, "5")
    assert queued(served, "wait_s=0")[-1]["end"] == "waited"
    assert state.streams.total() == 0


def test_a_stream_is_ended_where_another_network_has_none(served: TestClient) -> None:
    """Attack: networks hold all streams. Its page is told to come back, and loses nothing."""
    state: State = served.app.state.kernelzoo  # type: ignore[attr-defined]
    path = f"/v1/models/tiny/{CLASS}/candidates?wait_s=20"
    with ExitStack() as others, ThreadPoolExecutor(2) as pages:
        held = [pages.submit(served.get, path) for _ in range(2)]
        opened = state.streams._open
        eventually(
            lambda: sum(each.yields for own in opened.values() for each in own) == 2,
            "both are open",
        )
        for number in range(MOST - 2):
            place = Stream(yields=False)
            others.enter_context(state.streams.counted(f"network {number}", place))
        state.streams.refuse_excess("an honest one")
        ended = next(as_completed(held)).result()
        last = json.loads(ended.text.splitlines()[-1])
        assert (last["end"], last["cursor"] != "") == ("waited", True)
        assert sum(each.done() for each in held) == 1
        others.enter_context(state.streams.counted("an honest one", Stream(yields=False)))
        with pytest.raises(Refusal, match="ask again later"):
            state.streams.refuse_excess("nobody has more than one")


def test_streams_that_a_network_asks_for_in_one_moment_are_counted_too(
    served: TestClient,
) -> None:
    state: State = served.app.state.kernelzoo  # type: ignore[attr-defined]

    async def burst(classes: Sequence[str], wait_s: int) -> Counter[int]:
        transport = ASGITransport(served.app)
        async with AsyncClient(transport=transport, base_url="http://gateway") as pages:
            paths = [f"/v1/models/tiny/{each}/candidates?wait_s={wait_s}" for each in classes]
            answers = await asyncio.gather(*map(pages.get, paths))
        return Counter([each.status_code for each in answers])

    assert served.portal is not None
    strange = [f"{number:016x}{CLASS[16:]}" for number in range(2 * MOST_OF_NETWORK)]
    queued(served, "wait_s=0")
    for classes, wait_s in (([CLASS] * len(strange), 1), (strange, 0)):
        found = served.portal.call(burst, classes, wait_s)
        assert found == {200: MOST_OF_NETWORK, 429: MOST_OF_NETWORK}
    assert state.streams.total() == 0


def test_a_page_that_tunes_a_model_is_lent_of_its_workloads_in_its_own_order(
    served: TestClient,
) -> None:
    agent = open_agent(served)

    def lent(*workloads: str) -> str | None:
        answer = agent.lease(limit=1, workloads=list(workloads))
        return None if answer.status_code == 204 else str(answer.json()["workload"])

    assert agent.lease(limit=1).json()["workload"] == MATMUL, "most of an inference"
    assert lent(RELU, MATMUL) == RELU
    assert lent("matmul:f32:m1k1n1") is None
    assert agent.lease(workloads=[]).status_code == 422


def measured_by(
    db: Connection, job_id: int, found: dict[str, tuple[float, Preparation]], winner: str
) -> str:
    """An agent of the operator's measures these kernels of a job and votes for one; its class."""
    core = CORES[0].probed
    identity, lease = lend_all(db, core, "x86", job_id, list(found))
    for candidate_id, (best_ns, preparation) in found.items():
        measured = Measurement(
            candidate_id=candidate_id,
            outcome=Outcome.OK,
            samples_ns=(best_ns,),
            reference_ns=(1000.0,),
            calls_per_sample=1,
            sampled_entries=(),
            detail="",
            preparation=preparation,
        )
        fetch_one(db, measurements.accept(lease, identity, "", (measured,)))
        judged = Judged(candidate_id=candidate_id, verdict=Verdict.VERIFIED)
        execute(db, measurements.judge(lease, [judged]))
    lines = (BallotLine(candidate_id=winner, relative_time=found[winner][0] / 1000.0),)
    execute(
        db, ballots.file(MATMUL, core.device_class, Ballot(identity=str(identity), lines=lines))
    )
    return str(core.device_class)


def test_a_kernel_that_costs_less_for_few_runs_is_offered_beside_the_winner_with_its_module(
    served: TestClient, db: Connection
) -> None:
    row = db.execute(
        "SELECT job_id, array_agg(candidate_id ORDER BY ordinal) FROM space_point"
        " JOIN candidate USING (candidate_id) WHERE workload_key = %s AND state = 'compiled'"
        " GROUP BY job_id",
        (MATMUL,),
    ).fetchone()
    assert row is not None
    job_id, (cold, warm) = row
    found = {
        warm: (
            500.0,
            Preparation(compile_ns=9e5, optimise_ns=5.0, pack_ns=4e4, first_run_ns=900.0),
        ),
        cold: (
            900.0,
            Preparation(compile_ns=1e5, optimise_ns=5.0, pack_ns=0.0, first_run_ns=900.0),
        ),
    }
    rule = Rule(quorum=2, malicious_share=0)
    device_class = measured_by(db, job_id, found, warm)
    of = DeviceClass.parse(device_class)
    tally(db, MATMUL, of, rule)
    assert db.execute("SELECT FROM kernel_by_runs").fetchall() == []

    measured_by(db, job_id, found, warm)
    tally(db, MATMUL, of, rule)
    url = f"/v1/models/tiny/{device_class}"
    eventually(lambda: served.get(url).json()["kernels"][MATMUL]["by_runs"] != [], "the offer")
    answer = served.get(url)
    model, kernel = answer.json(), answer.json()["kernels"][MATMUL]
    assert kernel["kernel"]["candidate"] == warm
    assert kernel["costs"]["identities"] == 2
    assert (kernel["costs"]["compile_ns"], kernel["costs"]["run_ns"]) == (9e5, 500.0)
    (few,) = kernel["by_runs"]
    assert (few["kernel"]["candidate"], few["runs"], few["costs"]["pack_ns"]) == (cold, 30, 0.0)
    # The module for few runs has its kernel, that for many the winner.
    (module,) = model["modules_by_runs"]
    assert module["runs"] == 30
    assert few["kernel"]["sha256"] in module["module"]["functions"]
    assert few["kernel"]["sha256"] not in model["module"]["functions"]
    assert kernel["kernel"]["sha256"] in model["module"]["functions"]
    body = served.get(module["module"]["url"]).content
    assert digest(body) == module["module"]["sha256"] != model["module"]["sha256"]
    assert Sealed.of(answer.content).signed_by(Signer.of(SEED).public_keys)

    shown = served.get(f"/v1/keys/{quote(MATMUL)}/{device_class}", headers=OPERATOR).json()
    assert [(each["runs"], each["candidate"]) for each in shown["by_runs"]] == [
        (30, cold),
        (None, warm),
    ]
    of_class = [each for each in coverage(served) if each["device_class"] == device_class]
    # To compile, to pack a weight for each call, and what the first run takes longer.
    calls = sum(TINY.plan.kernels[call.kernel] == MATMUL for call in TINY.plan.calls)
    assert of_class[0]["prepare_ms"] == pytest.approx((9e5 + calls * 4e4 + 400.0) / 1e6)
    # A tally that changes nothing leaves the serial; a denied kernel is not offered any more.
    tally(db, MATMUL, of, rule)
    assert served.get(url).json()["serial"] == model["serial"]
    denied = denials.decide(
        few["kernel"]["sha256"], of, denied=True, stage="run", evidence="traps", operated=True
    )
    execute(db, denied)
    execute(db, notifications.zoo_changed())
    eventually(lambda: served.get(url).json()["kernels"][MATMUL]["by_runs"] == [], "the denial")
    after = served.get(url)
    assert after.json()["modules_by_runs"] == []
    assert after.headers["ETag"] != answer.headers["ETag"]
    eventually(lambda: served.get(url).json()["serial"] > model["serial"], "a newer serial")
    execute(db, zoo.retire(MATMUL, of))
    assert db.execute("SELECT FROM kernel_by_runs").fetchall() == []
