"""An application of onnxruntime-web runs on a zoo's kernels, and on that where it cannot."""

import json
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from playwright.sync_api import Browser, Page
from typer.testing import CliRunner

from cli.app import app
from cli.stack.supervisor import Stack
from fixtures.encoder import Encoder
from kernelzoo.serving import serving
from tests.browser.model_host import PAGES

pytestmark = pytest.mark.timeout(240)

MODULES = Path(__file__).parents[2] / "bench" / "page" / "node_modules"
PAGE = """<!doctype html><title>an application</title><script type="importmap">{"imports": {
  "onnxruntime-common": "/onnxruntime-common/dist/esm/index.js",
  "onnxruntime-web": "%s/client/ort.js",
  "onnxruntime-web-real": "/onnxruntime-web/dist/ort.wasm.bundle.min.mjs"
}}</script>"""
CALL = "async ([name, given]) => (await import('/pages/ort.js'))[name](...given)"
ENCODER = Encoder(tokens=None, layers=1)
LONGEST = 24


def affine(dtype: str = "f4", scale: float = 1.0) -> onnx.ModelProto:
    """y = x @ w, for one row of 8 entries."""
    entries = np.linspace(-scale, scale, 8 * 64, dtype=dtype).reshape(8, 64)
    weights = [
        numpy_helper.from_array(entries, "w"),
        numpy_helper.from_array(entries.T[:, :8], "v"),
    ]
    x, y = (
        helper.make_tensor_value_info(name, weights[0].data_type, [1, 8]) for name in ("x", "y")
    )
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["h"], name="first"),
        helper.make_node("MatMul", ["h", "v"], ["y"], name="second"),
    ]
    graph = helper.make_graph(nodes, "affine", [x], [y], weights)
    opset = helper.make_opsetid("", 17)
    made: onnx.ModelProto = helper.make_model(graph, opset_imports=[opset], ir_version=8)
    return made


@pytest.fixture(scope="module")
def address(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A site with an application, its models, and packages as npm installs them."""
    folder = tmp_path_factory.mktemp("application")
    for name in ("onnxruntime-common", "onnxruntime-web"):
        (folder / name).symlink_to(MODULES / name)
    (folder / "pages").symlink_to(PAGES)
    (folder / "index.html").write_text(PAGE % stack.url)
    onnx.save(ENCODER.model(), folder / "encoder.onnx")
    onnx.save(affine(), folder / "affine.onnx")
    onnx.save(affine(scale=2), folder / "tuned.onnx")
    onnx.save(Encoder(tokens=4, layers=1).model(), folder / "unknown.onnx")
    (folder / "torn.onnx").write_bytes((folder / "affine.onnx").read_bytes()[:-40])
    ranges = ("--dim", f"sequence=1..{LONGEST}", "--dim", "batch=1..3")
    add = ("models", "add", "--state", str(stack.place.root))
    for name, words in (("affine", ()), ("encoder", ranges)):
        added = CliRunner().invoke(
            app,
            [*add, str(folder / f"{name}.onnx"), "--name", name, *words],
        )
        assert added.exit_code == 0, added.output
    handler = partial(Quiet, directory=str(folder))
    with serving(ThreadingHTTPServer(("127.0.0.1", 0), handler)) as server:
        yield f"http://127.0.0.1:{server.server_port}"


class Quiet(SimpleHTTPRequestHandler):
    extensions_map = {**SimpleHTTPRequestHandler.extensions_map, ".mjs": "text/javascript"}  # noqa: RUF012

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def page(browser: Browser, address: str, stack: Stack) -> Iterator[Page]:
    opened = browser.new_page()
    opened.goto(address)
    call(opened, "configure", {"url": stack.url, "backend": "wasm"})
    yield opened
    opened.close()


def call(page: Page, name: str, *given: object) -> Any:
    return page.evaluate(CALL, [name, list(given)])


def sentence(length: int, batch: int = 1) -> dict[str, Any]:
    return {
        name: {"type": "int64", "data": data.ravel().tolist(), "dims": list(data.shape)}
        for name, data in ENCODER.feeds(length, seed=length, batch=batch).items()
    }


def row(value: float) -> dict[str, Any]:
    return {"x": {"type": "float32", "data": [value * i for i in range(8)], "dims": [1, 8]}}


def assert_equal(found: dict[str, Any]) -> None:
    """Holds what an application sees to onnxruntime-web's, but for `session.kernelzoo`."""
    own, real = found["own"], found["real"]
    for name in ("inputNames", "outputNames", "inputMetadata", "outputMetadata"):
        assert own[name] == real[name], name
    for ours, theirs in zip(own["outputs"], real["outputs"], strict=True):
        assert list(ours) == list(theirs)
        for name, output in theirs.items():
            assert (ours[name]["type"], ours[name]["dims"]) == (output["type"], output["dims"])
            reach = 1e-4 * max(map(abs, output["data"]))
            assert np.abs(np.subtract(ours[name]["data"], output["data"])).max() <= reach, name


def test_sentences_of_every_length_run_on_the_zoos_kernels(page: Page, address: str) -> None:
    runs = [sentence(7), sentence(LONGEST), sentence(1), sentence(5, batch=3)]
    found = call(page, "compared", f"{address}/encoder.onnx", runs)
    assert_equal(found)
    by_zoo = {"engine": "kernelzoo", "model": "encoder", "why": None}
    assert found["own"]["engines"] == [by_zoo] * len(runs)
    assert found["loaded"] == 0, "onnxruntime-web is loaded for nothing"


def test_a_run_that_no_plan_serves_is_onnxruntimes_and_the_next_is_the_zoos(
    page: Page, address: str
) -> None:
    runs = [sentence(5), sentence(LONGEST + 1), sentence(5)]
    found = call(page, "compared", f"{address}/encoder.onnx", runs, {}, True)
    assert_equal(found)
    engines = found["own"]["engines"]
    assert [each["engine"] for each in engines] == ["kernelzoo", "onnxruntime-web", "kernelzoo"]
    shapes = ", ".join(f"{name} 1×{LONGEST + 1}" for name in sentence(1))
    assert engines[1]["why"] == f"encoder has no plan for {shapes}."


@pytest.mark.parametrize(
    ("file", "why"),
    [
        ("tuned", "The zoo knows this graph with other weights alone."),
        ("unknown", "The zoo does not know this model: "),
    ],
)
def test_what_the_zoo_does_not_have_runs_on_onnxruntime_and_is_told_once(
    page: Page, address: str, file: str, why: str
) -> None:
    said: list[str] = []
    page.on("console", lambda line: said.append(line.text))
    tokens = {"type": "int64", "data": [1, 2, 3, 4], "dims": [1, 4]}
    feeds = row(1) if file == "tuned" else {"tokens": tokens, "mask": tokens}
    for _ in range(2):
        found = call(page, "compared", f"{address}/{file}.onnx", [feeds])
        assert_equal(found)
    (engine,) = found["own"]["engines"]
    assert (engine["engine"], engine["model"]) == ("onnxruntime-web", None)
    assert engine["why"].startswith(why)
    (line,) = [each for each in said if "kernelzoo" in each]
    assert line == f"kernelzoo: onnxruntime-web runs a model. {engine['why']}"


def test_without_a_zoo_onnxruntime_runs_and_without_both_the_reason_is_told(
    page: Page, address: str, stack: Stack
) -> None:
    refused = "onnxruntime-web has to run this: import it by env.kernelzoo.fallback."
    assert call(page, "alone", f"{address}/unknown.onnx", {"url": stack.url}) == refused
    assert call(page, "alone", f"{address}/affine.onnx", {"url": stack.url}) == "kernelzoo"
    call(page, "configure", {"url": "http://127.0.0.1:9"})
    found = call(page, "compared", f"{address}/affine.onnx", [row(1)])
    assert_equal(found)
    assert "No answer from http://127.0.0.1:9" in found["own"]["engines"][0]["why"]
    call(page, "configure", {})
    found = call(page, "compared", f"{address}/affine.onnx", [row(1)])
    assert found["own"]["engines"][0]["why"] == "env.kernelzoo names no zoo."


def test_weights_are_taken_from_the_file_that_the_page_has(
    page: Page, address: str, stack: Stack
) -> None:
    with urlopen(f"{stack.url}/v1/models/encoder") as answer:  # noqa: S310 - the test's own
        (plan,) = json.load(answer)["plans"]
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    runs = [sentence(LONGEST), sentence(3)]
    found = call(page, "compared", f"{address}/encoder.onnx", runs)
    assert_equal(found)
    assert f"{stack.url}{plan['original']['url']}" in asked
    assert f"{stack.url}{plan['weights']['url']}" not in asked
    # Without the map they are the zoo's.
    page.route(f"**{plan['original']['url']}", lambda route: route.abort())
    found = call(page, "compared", f"{address}/encoder.onnx", runs)
    assert_equal(found)
    assert {each["engine"] for each in found["own"]["engines"]} == {"kernelzoo"}
    assert f"{stack.url}{plan['weights']['url']}" in asked


def test_settings_are_onnxruntimes_own_once_it_runs(page: Page, address: str) -> None:
    found = call(page, "settings", f"{address}/unknown.onnx")
    assert found["engine"] == "onnxruntime-web"
    assert found["taken"] == [60_000, 1, "error"]
    assert found["linked"] == [50_000, "a device"]
    assert found["web"]


def test_what_onnxruntime_refuses_is_refused_in_its_way(page: Page, address: str) -> None:
    found = call(page, "refused", f"{address}/affine.onnx")
    assert found["own"] == found["real"]
