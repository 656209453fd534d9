"""A model of two precisions is one name: a page is given the faster, or what it asks for."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from fastapi.testclient import TestClient
from pydantic import SecretStr

from cli.bundle.collecting import collect
from cli.bundle.verifying import verified
from cli.gateway_client import GatewayClient
from cli.models.importing import QuantizeChoice, WantedWeights, imported
from cli.models.sending import send
from kernelzoo.errors import InvalidInput
from kernelzoo.settings import Settings
from kernelzoo.signing import new_seed
from services.gateway.wire.models import Registered
from tests.database.client import Agent, open_agent
from tests.database.conftest import Connection
from tests.database.test_models import CLASS, GPU_CLASS, confirm
from tests.reports import all_ok
from tests.running import eventually
from workers import compiling

pytestmark = pytest.mark.usefixtures("nothing_remembered")

NAME = "net"
Add = Callable[..., Registered]


@pytest.fixture
def quorum() -> int:
    return 1


@pytest.fixture
def settings(settings: Settings, tmp_path: Path, quorum: int) -> Settings:
    changes = {
        "models_dir": tmp_path / "models",
        "signing_key": SecretStr(new_seed()),
        "quorum": quorum,
    }
    return settings.model_copy(update=changes)


@pytest.fixture
def add(gateway: GatewayClient, tmp_path: Path) -> Add:
    """Imports y = relu(x @ w) and registers it as `kernelzoo models add` does."""
    file = tmp_path / "net.onnx"
    onnx.save(network(), file)

    def added(*, quantize: bool, replace: bool = False, f32: bool = True) -> Registered:
        wanted = WantedWeights(
            max_error=0.05, quantize=QuantizeChoice.INT8 if quantize else None, keeps_f32=f32
        )
        model = imported(file, NAME, ({},), tmp_path / "weights", lambda _: None, wanted)
        return send(
            gateway,
            model,
            source=file.name,
            replace=replace,
            weights_url=None,
            told=lambda _: None,
        )

    return added


def network() -> onnx.ModelProto:
    entries = np.random.default_rng(7).standard_normal((64, 64), np.float32) / np.float32(8)
    weights = onnx.numpy_helper.from_array(entries, "w")
    x, y = (onnx.helper.make_tensor_value_info(name, 1, [16, 64]) for name in "xy")
    nodes = [
        onnx.helper.make_node("MatMul", ["x", "w"], ["product"]),
        onnx.helper.make_node("Relu", ["product"], ["y"]),
    ]
    graph = onnx.helper.make_graph(nodes, NAME, [x], [y], [weights])
    opset = onnx.helper.make_opsetid("", 17)
    return onnx.helper.make_model(graph, opset_imports=[opset], ir_version=10)


def given(http: TestClient, query: str = "", device_class: str = CLASS) -> dict[str, Any]:
    answer = http.get(f"/v1/models/{NAME}/{device_class}{query}")
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def compile_all(db: Connection) -> None:
    """Plans all spaces and compiles the defaults of each, as compile workers do first."""
    for (job,) in db.execute("SELECT id FROM tuning_job WHERE state = 'waiting'").fetchall():
        compiling.plan_space(db, job, 2)
    waiting = db.execute(
        "SELECT candidate_id FROM candidate WHERE is_default AND state = 'waiting'"
    ).fetchall()
    compiling.compile_batch(db, [candidate_id for (candidate_id,) in waiting])


def multiplies_bytes(answer: dict[str, Any]) -> bool:
    return any(key.startswith("matmul_u8i8") for key in answer["plan"]["kernels"])


def test_int8_comes_beside_f32_under_one_name_and_is_given_to_who_asks(
    add: Add, http: TestClient, db: Connection
) -> None:
    add(quantize=False)
    compile_all(db)
    alone = given(http)
    assert (alone["precision"], len(alone["precisions"])) == ("f32", 1)
    made = add(quantize=True)
    assert [(each.precision, each.error is None) for each in made.model.plans] == [
        ("f32", True),
        ("int8", False),
    ]
    waiting = given(http)
    assert (waiting["precision"], waiting["missing"]) == ("f32", [])
    assert waiting["precision_reason"] == "Kernels of int8 are not compiled yet."
    compile_all(db)
    auto, numbers, of_bytes = (
        given(http, query) for query in ("", "?precision=f32", "?precision=int8")
    )
    assert auto["precision_reason"] == "Too little is measured here; it is f32 until more is."
    assert [multiplies_bytes(each) for each in (auto, numbers, of_bytes)] == [False, False, True]
    assert auto["plan"] == numbers["plan"] == given(http, "?precision=auto")["plan"]
    assert of_bytes["weights"]["size_bytes"] < numbers["weights"]["size_bytes"] / 3
    compared = {each["precision"]: each for each in auto["precisions"]}
    assert list(compared) == ["f32", "int8"]
    assert 0 < compared["int8"]["error"] < 0.05
    assert compared["f32"]["error"] is None
    assert [each["expected_ms"] for each in compared.values()] == [None, None]
    assert given(http, device_class=GPU_CLASS)["precision"] == "f32"


def measured(http: TestClient, db: Connection, f32_ns: float, int8_ns: float) -> Agent:
    """An agent measures the product of each plan, which are served as if they took so long."""
    agent = open_agent(http)
    plans = {each: given(http, f"?precision={each}")["plan"] for each in ("f32", "int8")}
    (numbers,) = plans["f32"]["kernels"]
    (of_bytes,) = (key for key in plans["int8"]["kernels"] if "u8i8" in key)
    lent_keys: set[str] = set()
    while not {numbers, of_bytes} <= lent_keys:
        # What takes most of an inference is lent first, and programs take little.
        lent = agent.lease().json()
        agent.report(lent, all_ok(lent))
        lent_keys.add(lent["workload"])
    confirm(db, agent.device_class, numbers, f32_ns)
    confirm(db, agent.device_class, of_bytes, int8_ns)
    return agent


def measured_alike(db: Connection, network: str) -> None:
    """Another identity, of a network of strangers, has measured what was measured, and found the
    same."""
    db.execute(
        """
        WITH before AS (
            SELECT m.* FROM measurement m
            WHERE m.identity_id = (SELECT id FROM identity ORDER BY created_at LIMIT 1)
        ), other AS (
            INSERT INTO identity (network, operated, valid_in_row) VALUES (%s, false, 1)
            RETURNING id
        ), lent AS (
            INSERT INTO lease (session_id, identity_id, device_class, job_id, reference_id, seed,
                               nonce, expires_at)
            SELECT l.session_id, other.id, l.device_class, l.job_id, l.reference_id, 0, '', now()
            FROM lease l CROSS JOIN other
            WHERE l.id = (SELECT min(lease_id) FROM before) RETURNING id, identity_id
        ), items AS (
            INSERT INTO lease_item (lease_id, candidate_id)
            SELECT DISTINCT lent.id, candidate_id FROM before CROSS JOIN lent
        )
        INSERT INTO measurement (lease_id, candidate_id, identity_id, device_class, outcome,
                                 samples_ns, reference_ns, calls_per_sample, sampled_entries,
                                 detail, verdict, best_ns, relative_time, job_id)
        SELECT DISTINCT ON (candidate_id) lent.id, candidate_id, lent.identity_id, device_class,
               outcome, samples_ns, reference_ns, calls_per_sample, sampled_entries, detail,
               verdict, best_ns, relative_time, job_id
        FROM before CROSS JOIN lent
        """,
        (network,),
    )
    db.execute("NOTIFY kernelzoo_zoo")  # Else it is looked at after a minute.


@pytest.mark.parametrize("quorum", [2])
def test_identities_of_one_network_have_no_class_given_int8(
    add: Add, http: TestClient, db: Connection
) -> None:
    """Attack: whoever opens identities enough in one network has all pages of a class err."""
    add(quantize=True)
    compile_all(db)
    agent = measured(http, db, 4e6, 1e6)
    db.execute("UPDATE identity SET operated = false, network = 'one'")
    for _ in range(3):
        measured_alike(db, "one")

    assert given(http, device_class=agent.device_class)["precision"] == "f32"
    measured_alike(db, "two")
    eventually(
        lambda: given(http, device_class=agent.device_class)["precision"] == "int8",
        "a second network is believed",
    )


@pytest.mark.parametrize(("f32_ns", "int8_ns", "faster"), [(4e6, 1e6, "int8"), (1e6, 4e6, "f32")])
def test_the_precision_that_a_class_measured_to_be_faster_is_given_to_it(
    add: Add, http: TestClient, db: Connection, f32_ns: float, int8_ns: float, faster: str
) -> None:
    add(quantize=True)
    compile_all(db)
    agent = measured(http, db, f32_ns, int8_ns)
    found = given(http, device_class=agent.device_class)
    assert found["precision"] == faster
    times = {each["precision"]: each["expected_ms"] for each in found["precisions"]}
    assert times["f32"] == pytest.approx(f32_ns / 1e6)
    assert times["int8"] == pytest.approx(int8_ns / 1e6, rel=0.2), "others are as fast"
    assert found["precision_reason"].startswith("An inference is expected to take ")
    covered = http.get(f"/v1/models/{NAME}/coverage").json()["coverage"]
    assert {each["precision"] for each in covered} == {"f32", "int8"}
    timelines = [
        http.get(f"/v1/models/{NAME}/{agent.device_class}/timeline?precision={each}").json()
        for each in ("f32", "int8")
    ]
    assert timelines[0] != timelines[1]


def test_a_precision_that_no_plan_has_is_refused_in_a_sentence(
    add: Add, http: TestClient, gateway: GatewayClient
) -> None:
    add(quantize=False)
    for query, status, sentence in (
        ("?precision=int8", 404, "net has no plan of int8, only of f32; `kernelzoo models add --q"),
        ("?precision=f16", 422, "precision is auto, f32 or int8, not 'f16'"),
    ):
        refused = http.get(f"/v1/models/{NAME}/{CLASS}{query}")
        assert (refused.status_code, refused.json()["detail"].startswith(sentence)) == (
            status,
            True,
        ), refused.text
    add(quantize=True)
    with pytest.raises(InvalidInput, match="--replace"):
        add(quantize=False)
    add(quantize=True, f32=False, replace=True)
    (plan,) = gateway.model(NAME).plans
    assert plan.precision == "int8"
    refused = http.get(f"/v1/models/{NAME}/{CLASS}?precision=f32")
    assert "only of int8" in refused.json()["detail"]


def test_a_bundle_has_both_precisions_and_first_the_one_that_the_zoo_chooses(
    add: Add, gateway: GatewayClient, db: Connection
) -> None:
    add(quantize=True)
    compile_all(db)
    files = collect(gateway, NAME, ())
    models = json.loads(files["bundle.json"])["models"]
    by_class: dict[str, list[str]] = {}
    for each in models:
        by_class.setdefault(each["device_classes"][0], []).append(each["precision"])
    assert set(map(tuple, by_class.values())) == {("f32", "int8")}
    assert verified(files, ()).manifests == len(models)
