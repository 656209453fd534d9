"""A page on a plain static host that runs kernels of a bundle, and no others."""

import json
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from shutil import copy
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from playwright.sync_api import Page
from typer.testing import CliRunner, Result

from cli.app import app
from cli.bundle.collecting import collect
from cli.bundle.storing import read, write
from cli.bundle.verifying import verified
from cli.demo.examples import served_examples
from cli.gateway_client import GatewayClient
from cli.stack.supervisor import Stack
from kernelzoo.domain.target import TargetKind
from kernelzoo.domain.workload import Workload
from kernelzoo.errors import InvalidInput
from kernelzoo.signing import Signer, new_seed
from tests.running import eventually

KEY = "matmul:f32:m5k7n6"
DIST = Path(__file__).parents[2] / "client" / "dist"

RUN = """async ([key, keys, backend = "auto"]) => {
  const { KernelZoo } = await import("/sdk.js");
  const zoo = await KernelZoo.open("kernels/bundle.json", { keys, backend });
  const kernel = await zoo.kernel(key);
  const output = await kernel.runAsync({ a: new Array(35).fill(2), b: new Array(42).fill(3) });
  return { level: kernel.info.level, backend: kernel.info.backend, output: [...output] };
}"""


@pytest.fixture(scope="module")
def folder(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A site with a page, the SDK and a bundle."""
    site = tmp_path_factory.mktemp("site")
    with GatewayClient(url=stack.url, operator_key=stack.keys.operator) as gateway:
        job = gateway.register(Workload.parse(KEY), TargetKind.WASM).job
        eventually(lambda: gateway.job(job).compiled > 0, "compiling")
        files = collect(gateway, KEY, (), javascript=True)
        verified(files, ())
        write(files, site / "kernels")
    (site / "index.html").write_text("<!doctype html><title>a site</title>")
    (site / "chunks").mkdir()
    for name in ("sdk.js", *json.loads((DIST / "sdk.json").read_text())["chunks"]):
        copy(DIST / name, site / name)
    return site


@pytest.fixture(scope="module")
def host(folder: Path) -> Iterator[str]:
    with served_examples(folder) as address:
        yield address


@pytest.fixture
def page(context: Any, host: str) -> Page:
    opened: Page = context.new_page()
    opened.goto(host)
    return opened


@pytest.fixture
def pins(stack: Stack) -> list[str]:
    return list(Signer.of(stack.keys.signing).public_keys)


def test_a_static_host_serves_kernels_to_a_page_that_pins_the_key(
    page: Page, host: str, pins: list[str]
) -> None:
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    ran = page.evaluate(RUN, [KEY, pins])
    assert ran == {"level": "default", "backend": "wasm", "output": [42] * 30}
    plain = page.evaluate(RUN, [KEY, pins, "javascript"])
    assert plain == {"level": "default", "backend": "javascript", "output": [42] * 30}
    assert all(url.startswith((host, "blob:")) for url in asked), "no gateway is asked"


@pytest.mark.parametrize("kind", ["manifests", "artifacts"])
def test_a_bundle_with_one_byte_changed_is_refused(
    page: Page, folder: Path, pins: list[str], kind: str
) -> None:
    kept = {file: file.read_bytes() for file in (folder / "kernels/v1" / kind).iterdir()}
    try:
        for file, body in kept.items():
            at = len(body) // 2
            file.write_bytes(body[:at] + bytes([body[at] ^ 1]) + body[at + 1 :])
        with pytest.raises(Exception, match=r"signature|SHA-256|somebody changed"):
            page.evaluate(RUN, [KEY, pins])
    finally:
        for file, body in kept.items():
            file.write_bytes(body)


def test_a_bundle_of_another_zoo_is_refused(page: Page) -> None:
    with pytest.raises(Exception, match="No valid signature of a pinned key"):
        page.evaluate(RUN, [KEY, list(Signer.of(new_seed()).public_keys)])


def test_a_gateway_serves_a_page_that_pins_its_key(
    page: Page, stack: Stack, pins: list[str]
) -> None:
    opened = RUN.replace("kernels/bundle.json", stack.url)
    assert page.evaluate(opened, [KEY, pins])["output"] == [42] * 30
    with pytest.raises(Exception, match="No valid signature of a pinned key"):
        page.evaluate(opened, [KEY, list(Signer.of(new_seed()).public_keys)])


WIDE = (96, 1024, 640)
FILE_BYTES = 600 << 10
"""Two chunks of 256 KiB fit, and not three."""
OPEN_WIDE = """async ([backend, x]) => {
  const { KernelZoo } = await import("/sdk.js");
  const zoo = await KernelZoo.open("wide/bundle.json", { backend });
  const model = await zoo.model("wide");
  await model.complete();
  const { y } = await model.run({ x: Float32Array.from(x) });
  const { target } = model.plan;
  await model.dispose();
  return { target, y: [...y] };
}"""


@pytest.fixture(scope="module")
def wide(stack: Stack, folder: Path) -> tuple[Path, list[np.ndarray]]:
    """The bundle of a model whose weights are several files, and its weights."""
    random = np.random.default_rng(29)
    weights = [
        random.standard_normal(shape, np.float32) / np.float32(30) for shape in pairwise(WIDE)
    ]
    nodes = [
        helper.make_node("MatMul", ["x", "a"], ["h"]),
        helper.make_node("Relu", ["h"], ["r"]),
        helper.make_node("MatMul", ["r", "b"], ["y"]),
    ]
    ports = [
        helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [2, extent])
        for name, extent in (("x", WIDE[0]), ("y", WIDE[-1]))
    ]
    constants = [
        numpy_helper.from_array(value, name) for name, value in zip("ab", weights, strict=True)
    ]
    graph = helper.make_graph(nodes, "wide", ports[:1], ports[1:], constants)
    opset = [helper.make_opsetid("", 17)]
    file = folder.parent / f"{folder.name}-wide.onnx"
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=9), file)
    assert typed(stack, "models", "add", file, "--name", "wide").exit_code == 0
    place = folder / "wide"
    bundle = ("zoo", "bundle", "wide", "--javascript", "-o", place, "--max-file", "600KiB")
    eventually(lambda: typed(stack, *bundle).exit_code == 0, "a kernel for each call")
    return place, weights


def typed(stack: Stack, *words: str | Path) -> Result:
    return CliRunner().invoke(app, [*map(str, words), "--state", str(stack.place.root)])


@pytest.mark.parametrize("backend", ["wasm", "javascript"])
def test_weights_in_several_files_are_read_by_pages_of_a_static_host(
    page: Page, wide: tuple[Path, list[np.ndarray]], backend: str
) -> None:
    place, (a, b) = wide
    sizes = {
        file.name: file.stat().st_size for file in (place / "v1/blobs").iterdir() if file.suffix
    }
    assert len(sizes) == 6, "2.9 MB in files of two chunks of 256 KiB"
    assert all(file.stat().st_size <= FILE_BYTES for file in place.rglob("*") if file.is_file())
    x = np.random.default_rng(3).standard_normal((2, WIDE[0]), np.float32)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url.rpartition("/")[2]))
    found = page.evaluate(OPEN_WIDE, [backend, x.ravel().tolist()])
    assert found["target"] == backend
    assert found["y"] == pytest.approx((np.maximum(x @ a, 0) @ b).ravel(), abs=1e-4)
    assert [name for name in asked if name in sizes] == sorted(sizes), "each once, in order"


def test_a_part_of_weights_that_was_changed_is_refused(
    wide: tuple[Path, list[np.ndarray]], stack: Stack, pins: list[str]
) -> None:
    place, _ = wide
    verify = ("zoo", "verify", place, "--key", pins[0])
    assert CliRunner().invoke(app, [*map(str, verify)]).exit_code == 0
    files = read(place)
    part = next(path for path in files if path.endswith(".1"))
    body = files[part]
    for wrong in (body[:-1], bytes([body[0] ^ 1]) + body[1:]):
        with pytest.raises(InvalidInput, match="somebody changed it"):
            verified({**files, part: wrong}, ())
    with pytest.raises(InvalidInput, match=r"\.1 is missing"):
        verified({path: files[path] for path in files if path != part}, ())
    again = typed(stack, "zoo", "bundle", "wide", "-o", place.parent / "no", "--max-file", "100KiB")
    assert isinstance(again.exception, InvalidInput)
    assert "chunks of 262144 bytes" in str(again.exception)
