"""Pages open models that were added a moment ago: while candidates of others wait, and right ones
whose outputs other inputs would leave to rounding."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from playwright.sync_api import Browser
from typer.testing import CliRunner, Result

from cli.app import app
from cli.gateway_client import GatewayClient
from cli.stack.supervisor import Stack
from kernelzoo.domain.target import TargetKind
from kernelzoo.domain.workload import Workload
from tests.browser.model_host import page_elsewhere
from tests.models_of_bytes import bytes_compared
from tests.running import eventually, rows
from tests.tiny_model import add, tiny_model
from workers.fleet.chromium import launched_chromium

pytestmark = pytest.mark.timeout(240)

OTHERS = 50
OPEN = """async (url) => {
  const { KernelZoo } = await import(`${url}/client/sdk.js`);
  const deviceClass = "0123456789abcdef:r1-0:wasm+simd128";
  const zoo = await KernelZoo.open(url, { deviceClass, backend: "wasm", timeoutMs: 60_000 });
"""
NEW = f"""{OPEN}
  const phases = [];
  const onProgress = ({{ phase, total }}) => {{ phases.push(`${{phase}} ${{total}}`); }};
  const model = await zoo.model("tiny", {{ onProgress }});
  await model.complete();
  const {{ y }} = await model.run({{ x: new Float32Array(model.inputs[0].shape[0] * 8) }});
  return {{ phases, zeros: y.every((entry) => entry === 0) }};
}}"""
CHECKED = f"""{OPEN}
  const model = await zoo.model("bytes", {{ check: "first" }});
  const x = Int32Array.from({{ length: 64 }}, (_, i) => (7 * i) % 257);
  const {{ y }} = await model.run({{ x }});
  return y.every(Number.isFinite) && y.some((entry) => Math.abs(entry) > 0.1);
}}"""
BEYOND = f"""{OPEN}
  const model = await zoo.model("rows", {{ check: "first" }});
  const run = (...ids) => model.run({{ ids: BigInt64Array.from(ids, BigInt) }}).then(
    ({{ y }}) => [...y], (error) => `${{error.stage}}: ${{error.message}}`);
  return [await run(0, -9), await run(0, 9), await run(-10, 0)];
}}"""


@pytest.fixture
def browser() -> Iterator[Browser]:
    with launched_chromium() as launched:
        yield launched


def evaluated(browser: Browser, stack: Stack, script: str) -> Any:
    with page_elsewhere(browser) as page:
        return page.evaluate(script, stack.url)


def waiting(stack: Stack) -> int:
    ((count,),) = rows(stack, "SELECT count(*) FROM candidate WHERE state = 'waiting'")
    return int(count)


def test_a_page_opens_a_new_model_while_the_queue_is_full(stack: Stack, browser: Browser) -> None:
    with GatewayClient(url=stack.url, operator_key=stack.keys.operator) as gateway:
        for number in range(OTHERS):
            # Somebody asked for each by itself, and each takes longer to compile than the model.
            workload = Workload.of("matmul", (96 + number, 256, 256))
            gateway.register(workload, TargetKind.WASM)
        eventually(lambda: waiting(stack) > 10 * OTHERS, "a queue")
        add(gateway, tiny_model())
        found = evaluated(browser, stack, NEW)
        assert waiting(stack) > 5 * OTHERS, "the queue was not empty meanwhile"
        readiness = gateway.model_readiness("tiny")
        assert (readiness.defaults, readiness.compiled) == (2, 2)
    assert found["zeros"]
    assert found["phases"][0] in ("compile 2", "plan 1"), found


def added(stack: Stack, folder: Path, model: onnx.ModelProto, name: str) -> Result:
    file = folder / f"{name}.onnx"
    onnx.save(model, file)
    words = ["models", "add", str(file), "--name", name, "--state", str(stack.place.root)]
    return CliRunner().invoke(app, words)


def test_a_right_model_of_compared_bytes_opens_and_no_device_is_blamed(
    stack: Stack, browser: Browser, tmp_path: Path
) -> None:
    said = added(stack, tmp_path, bytes_compared(), "bytes")
    assert said.exit_code == 0, said.output
    assert "bytes is ready for pages: 1 plan" in said.stdout
    assert evaluated(browser, stack, CHECKED) is True
    with GatewayClient(url=stack.url) as gateway:
        assert gateway.model_coverage("bytes").wrong == []


def test_an_id_beyond_a_table_is_refused_by_name_value_and_range(
    stack: Stack, browser: Browser, tmp_path: Path
) -> None:
    table = numpy_helper.to_array(
        helper.make_tensor("", TensorProto.FLOAT, [9, 4], list(map(float, range(36))))
    )
    graph = helper.make_graph(
        [helper.make_node("Gather", ["table", "ids"], ["y"])],
        "rows",
        [helper.make_tensor_value_info("ids", TensorProto.INT64, [2])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 4])],
        [numpy_helper.from_array(table, "table")],
    )
    opset = helper.make_opsetid("", 18)
    model = helper.make_model(graph, opset_imports=[opset], ir_version=10)
    assert added(stack, tmp_path, model, "rows").exit_code == 0
    right, *refused = evaluated(browser, stack, BEYOND)
    assert right == [0, 1, 2, 3, 0, 1, 2, 3]
    told = "run: Input ids (int64) takes whole numbers from -9 to 8, as they choose rows of a table"
    assert refused == [f"{told}; entry 1 is 9.", f"{told}; entry 0 is -10."]
