"""`kernelzoo models`, as it is typed, against the gateway."""

import json
import tomllib
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import numpy as np
import onnx
import pytest
from fastapi.testclient import TestClient
from pydantic import SecretStr
from typer.testing import CliRunner, Result

from cli import tune
from cli.app import app
from cli.bundle.collecting import collect
from cli.bundle.verifying import verified
from cli.gateway_client import GatewayClient
from cli.models import command
from fixtures.language_onnx import OnnxForm, decoder_onnx
from kernelzoo.domain.device import DeviceClass
from kernelzoo.domain.zoo import EntryState
from kernelzoo.errors import InvalidInput
from kernelzoo.formats.bundle import any_classes
from kernelzoo.settings import Settings
from kernelzoo.signing import new_seed
from kernelzoo.store import zoo
from kernelzoo.store.blocking import execute
from services.gateway.wire.models import ModelCoverage
from services.tuner.graph.source_hashes import read_source
from services.tuner.language.checkpoint import Seeded
from services.tuner.language.config_file import config_of
from tests.database.client import open_agent
from tests.database.conftest import Connection
from tests.database.test_models import CLASS, GPU_CLASS, MATMUL, RELU, compile_first, confirm
from tests.language_folder import CONFIG, write_folder
from tests.reports import all_ok
from tests.tiny_model import TINY_NAME, register, tiny_model
from workers import compiling

pytestmark = pytest.mark.usefixtures("nothing_remembered")

Run = Callable[..., Result]


@pytest.fixture
def settings(settings: Settings, tmp_path: Path) -> Settings:
    changes = {"models_dir": tmp_path / "models", "signing_key": SecretStr(new_seed())}
    return settings.model_copy(update=changes)


@pytest.fixture
def run(gateway: GatewayClient, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    # The client of the tests is used again.
    monkeypatch.setattr(GatewayClient, "__exit__", lambda *_: None)
    monkeypatch.setattr(command, "reach", lambda *_: gateway)
    onnx.save(network(), tmp_path / "tiny.onnx")

    def typed(*words: str, answer: str = "") -> Result:
        # No worker is there for which a command could wait.
        options = ("--no-wait",) if words[0] == "add" else ()
        return CliRunner().invoke(app, ["models", *words, *options], input=answer)

    return typed


def network(dtype: type[np.float32 | np.float16] = np.float32) -> onnx.ModelProto:
    """y = relu(x @ w) for x of any length."""
    entries = np.random.default_rng(7).random((8, 16), np.float32).astype(dtype)
    weights = onnx.numpy_helper.from_array(entries, "w")
    x, y = (
        onnx.helper.make_tensor_value_info(name, weights.data_type, ["sequence", extent])
        for name, extent in (("x", 8), ("y", 16))
    )
    nodes = [
        onnx.helper.make_node("MatMul", ["x", "w"], ["product"]),
        onnx.helper.make_node("Relu", ["product"], ["y"]),
    ]
    graph = onnx.helper.make_graph(nodes, "tiny", [x], [y], [weights])
    opset = onnx.helper.make_opsetid("", 17)
    return onnx.helper.make_model(graph, opset_imports=[opset], ir_version=10)


def test_a_file_of_f16_is_so_on_a_gpu_and_f32_elsewhere(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "half.onnx"
    onnx.save(network(np.float16), file)
    add = ("add", str(file), "--name", "half", "--dim", "sequence=4", "--replace")
    added = run(*add)
    assert added.exit_code == 0, added.output
    assert "2 plans (sequence=4; sequence=4 in f16 for webgpu)" in added.output
    shown = run("show", "half")
    assert "sequence=4 in f16 for webgpu" in shown.stdout
    assert shown.stdout.count("input x: float32 [4, 8]") == 2, "whatever the file has"
    plain = run(*add, "--dtype", "f32")
    assert "1 plan (sequence=4)" in plain.output
    for words, refusal in (
        (("--target", "wasm"), "add --target webgpu"),
        (("--weights-url", "https://a.example/w", "-o", str(file)), "leave its weights in the zoo"),
    ):
        refused = run(*add, "--dtype", "f16", *words)
        assert isinstance(refused.exception, InvalidInput)
        assert refusal in str(refused.exception)


def test_a_page_that_has_the_file_finds_the_models_that_were_imported_from_it(
    run: Run, http: TestClient, tmp_path: Path
) -> None:
    file = tmp_path / "tiny.onnx"
    graph = read_source(file).hashes

    def found() -> list[tuple[str, str]]:
        answer = http.get(f"/v1/graphs/{graph.graph}")
        assert answer.headers["Cache-Control"].startswith("public, max-age=60")
        return [(each["model"]["name"], each["weights"]) for each in answer.json()["models"]]

    assert found() == []
    assert run("add", str(file), "--name", "b", "--dim", "sequence=4").exit_code == 0
    assert run("add", str(file), "--name", "a", "--dim", "sequence=1..24").exit_code == 0
    assert found() == [("b", graph.weights), ("a", graph.weights)], "the first of them first"
    larger = network()
    larger.graph.initializer[0].CopyFrom(
        onnx.numpy_helper.from_array(np.eye(8, 512, dtype="f4"), "w")
    )
    onnx.save(larger, file)
    wide = read_source(file).hashes
    added = run("add", str(file), "--name", "b", "--dim", "sequence=4", "--replace")
    assert added.exit_code == 0, added.output
    assert found() == [("a", graph.weights)]
    (model,) = http.get(f"/v1/graphs/{wide.graph}").json()["models"]
    (plan,) = model["model"]["plans"]
    assert (plan["dimensions"], plan["outputs"][0]["shape"]) == ({"sequence": 4}, [4, 512])
    assert http.get("/v1/graphs/tiny").status_code == 422


def test_a_model_of_a_range_is_shown_with_it_and_takes_what_pages_give(
    run: Run, tmp_path: Path
) -> None:
    file = str(tmp_path / "tiny.onnx")
    added = run("add", file, "--name", "ranged", "--dim", "sequence=1..24")
    assert added.exit_code == 0, added.output
    assert "1 plan (sequence=1..24)" in added.output
    shown = run("show", "ranged").stdout
    assert "plan sequence=1..24: " in shown
    assert [line.strip() for line in shown.splitlines() if "input" in line] == [
        "input x: float32 [24, 8]"
    ]
    declared = run("types", "ranged").stdout
    assert "readonly x: Float32Array;" in declared
    assert "spare" not in declared
    assert json.loads(run("show", "ranged", "--json").stdout)["plans"][0]["least"] == {
        "sequence": 1
    }
    checked = run("check", "ranged", "--dim", "sequence=1..24")
    assert "are not compiled yet" in str(checked.exception), "its plan is found"


def test_what_pages_found_wrong_is_shown(run: Run, http: TestClient) -> None:
    model = tiny_model()
    assert register(http, model).status_code == 201
    golden = model.plan.golden.sha256
    told = {"model": TINY_NAME, "golden": golden, "device_class": CLASS, "output": "y"}
    assert "wrong" not in run("show", TINY_NAME).output
    assert http.post("/v1/wrong-outputs", json=told).status_code == 202
    shown = run("show", TINY_NAME)
    assert shown.exit_code == 0, shown.output
    assert "wrong with default kernels" in shown.stdout
    assert "networks" in shown.stdout
    (wrong,) = json.loads(run("show", TINY_NAME, "--json").stdout)["wrong"]
    assert (wrong["device_class"], wrong["networks"], wrong["outputs"]) == (CLASS, 1, ["y"])


def test_a_model_is_added_listed_shown_typed_checked_and_removed(
    run: Run, db: Connection, tmp_path: Path
) -> None:
    add = ("add", str(tmp_path / "tiny.onnx"), "--name", TINY_NAME, "--dim", "sequence=4,6")
    added = run(*add)
    assert added.exit_code == 0, added.output
    assert "2 plans (sequence=4; sequence=6)" in added.output
    assert "zoo.model('tiny')" in added.output
    said = run(*add, "--json").stdout
    # The gateway of the tests logs there that its broker is away.
    again = json.loads(said[said.index("{") :])
    assert (again["model"]["name"], again["jobs"]) == (TINY_NAME, 0)
    other = run(*add[:-1], "sequence=8")
    assert isinstance(other.exception, InvalidInput)
    assert "--replace" in str(other.exception)

    assert "tiny.onnx" in run("list").stdout
    shown = run("show", TINY_NAME)
    assert "input x: float32 [4, 8]" in shown.stdout
    assert "kernelzoo fleet" in shown.output
    assert "readonly x: Float32Array;" in run("types", TINY_NAME).stdout

    early = run("check", TINY_NAME)
    assert "not compiled yet" in str(early.exception)
    compile_some(db)
    # The first of the space want relaxed SIMD.
    fast = ("--class", any_classes()[1][0])
    checked = run("check", TINY_NAME, *fast, "--dim", "sequence=4", "--json")
    assert checked.exit_code == 0, checked.output
    found = json.loads(checked.stdout)
    assert [(each["right"], each["calls"]) for each in found] == [(True, [])]
    assert isinstance(run("check", TINY_NAME, "--dim", "sequence=5").exception, InvalidInput)
    own_dots = "0123456789abcdef:r1-0:wasm+dot-of-u8+relaxed-simd+simd128"
    refused = run("check", TINY_NAME, "--class", own_dots).exception
    assert "check 0123456789abcdef:r1-0:wasm+relaxed-simd+simd128" in str(refused)

    declined = run("remove", TINY_NAME, answer="n\n")
    assert (declined.exit_code, "Remove it?" in declined.output) == (1, True)
    assert run("remove", TINY_NAME, answer="y\n").exit_code == 0
    assert "no model yet" in run("list").output
    assert "there is no model tiny" in str(run("show", TINY_NAME).exception)


def test_a_language_model_is_added_for_webgpu_from_a_folder_and_from_a_file_of_onnx(
    run: Run, http: TestClient, db: Connection, tmp_path: Path
) -> None:
    write_folder(tmp_path)
    add = ("--name", "small", "--dim", "context=48")
    added = run("add", str(tmp_path), *add)
    assert added.exit_code == 0, added.output
    assert "1 plan (context=48)" in added.output
    assert "zoo.languageModel('small')" in added.output
    answer = http.get(f"/v1/models/small/{GPU_CLASS}").json()
    assert answer["plan"]["decoder"]["stop"] == [2, 3]
    query = "SELECT calls FROM model_workload WHERE workload_key = 'gather_q4:f32:m1k70n32'"
    assert db.execute(query).fetchall() == [(48,)], "as many tokens as rows of a block"
    file = tmp_path / "model_q4.onnx"
    onnx.save(decoder_onnx(config_of(CONFIG, 48), Seeded(), OnnxForm()), file)
    again = run("add", str(file), *add, "--replace")
    assert again.exit_code == 0, again.output
    assert "zoo.languageModel('small')" in again.output
    halved = run("add", str(file), *add, "--replace", "--dtype", "f16")
    assert "2 plans (context=48; context=48 in f16 for webgpu)" in halved.output
    assert "(with a cache of f16 outputs differ by" in halved.output
    away = ("--weights-url", "https://author.example/w.bin", "-o", str(tmp_path / "w.bin"))
    assert run("add", str(file), *add, "--replace", "--dtype", "f16", *away).exit_code == 0
    plans = json.loads(run("show", "small", "--json").stdout)["plans"]
    assert [each["weights"]["url"] for each in plans] == [away[1]] * 2, "both read one file"
    for target, wanted in ((GPU_CLASS, "f16"), (CLASS, "f32")):
        states = http.get(f"/v1/models/small/{target}").json()["plan"]["states"]
        assert {state["dtype"] for state in states[3:]} == {wanted}


def test_weights_for_a_host_of_the_author_are_written_for_it(run: Run, tmp_path: Path) -> None:
    add = ("add", str(tmp_path / "tiny.onnx"), "--name", TINY_NAME, "--dim", "sequence=4")
    away = ("--weights-url", "https://author.example/w.bin")
    assert "--output" in str(run(*add, *away).exception)
    weights = tmp_path / "w.bin"
    assert run(*add, *away, "--output", str(weights)).exit_code == 0
    assert np.frombuffer(weights.read_bytes(), np.float32).size == 8 * 16
    shown = json.loads(run("show", TINY_NAME, "--json").stdout)
    assert shown["plans"][0]["weights"]["url"] == away[1]


def test_the_expected_time_of_a_model_falls_while_its_tuning_is_followed(
    http: TestClient, gateway: GatewayClient, db: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The crowd confirms a faster kernel after the first look."""
    register(http, tiny_model())
    compile_some(db)
    agent = open_agent(http)
    while (lent := agent.lease()).status_code == 200:
        agent.report(lent.json(), all_ok(lent.json()))
    confirm(db, agent.device_class, RELU, 1e6)
    confirm(db, agent.device_class, MATMUL, 7e6, EntryState.PROVISIONAL)
    look = GatewayClient.model_coverage

    def look_before_the_crowd_goes_on(client: GatewayClient, name: str) -> ModelCoverage:
        seen = look(client, name)
        execute(db, zoo.retire(MATMUL, DeviceClass.parse(agent.device_class)))
        confirm(db, agent.device_class, MATMUL, 1e6)
        return seen

    monkeypatch.setattr(GatewayClient, "model_coverage", look_before_the_crowd_goes_on)
    monkeypatch.setattr(GatewayClient, "__exit__", lambda *_: None)
    monkeypatch.setattr(tune, "reach", lambda *_: gateway)
    followed = CliRunner().invoke(app, ["tune", "--model", TINY_NAME])
    assert followed.exit_code == 0, followed.output
    assert "expected 8.00 ms; confirmed 1/2 kernels" in followed.stderr
    assert "expected 2.00 ms, 8.00 ms at first (4.00×); confirmed 2/2 kernels" in followed.stdout
    assert f"of an inference: {MATMUL}" in followed.stdout, "the picture names who made it fall"


def compile_some(db: Connection) -> None:
    """The first two candidates of each space, as compile workers do."""
    for (job_id,) in db.execute("SELECT id FROM tuning_job").fetchall():
        compiling.plan_space(db, job_id, 2)
        compile_first(db, job_id)


def test_a_bundle_of_a_model_holds_all_that_it_is_made_of(
    http: TestClient, gateway: GatewayClient, db: Connection
) -> None:
    register(http, tiny_model())
    compile_some(db)
    files = collect(gateway, TINY_NAME, ())
    found = verified(files, ())
    assert (found.head.set, found.manifests) == (TINY_NAME, 1)
    (fast, *_) = json.loads(files["bundle.json"])["models"]
    assert (fast["name"], fast["dimensions"]) == (TINY_NAME, {"sequence": 4})
    assert fast["device_classes"] == [any_classes()[1][0]]
    model = tiny_model()
    for body in (model.weights, model.golden):
        assert files[f"v1/blobs/{sha256(body).hexdigest()}"] == body
    told = json.loads(files[fast["url"].removeprefix("/")])
    assert told["module"]["url"].removeprefix("/") in files
    kernels = tomllib.loads(files["zoo.lock"].decode())["kernel"]
    assert {each["workload"] for each in kernels} == set(model.plan.kernels)
    for path in sorted(files):
        with pytest.raises(InvalidInput):
            verified({**files, path: files[path] + b" "}, found.keys)
        with pytest.raises(InvalidInput):
            verified({each: files[each] for each in files if each != path}, found.keys)


def test_a_name_that_no_model_may_have_is_refused(run: Run, tmp_path: Path) -> None:
    refused = run("add", str(tmp_path / "tiny.onnx"), "--name", "../x", "--dim", "sequence=4")
    assert isinstance(refused.exception, InvalidInput)
    assert run("list", "--json").stdout.strip() == "[]"
