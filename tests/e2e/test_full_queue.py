"""A page opens a model that was added while candidates of many others wait to be compiled."""

from typing import Any

import pytest
from playwright.sync_api import Browser

from cli.gateway_client import GatewayClient
from cli.stack.supervisor import Stack
from kernelzoo.domain.target import TargetKind
from kernelzoo.domain.workload import Workload
from tests.browser.model_host import page_elsewhere
from tests.running import eventually, rows
from tests.tiny_model import add, tiny_model
from workers.fleet.chromium import launched_chromium

pytestmark = pytest.mark.timeout(240)

OTHERS = 50
SCRIPT = """async (url) => {
  const { KernelZoo } = await import(`${url}/client/sdk.js`);
  const deviceClass = "0123456789abcdef:r1-0:wasm+simd128";
  const zoo = await KernelZoo.open(url, { deviceClass, backend: "wasm", timeoutMs: 60_000 });
  const phases = [];
  const onProgress = ({ phase, total }) => { phases.push(`${phase} ${total}`); };
  const model = await zoo.model("tiny", { onProgress });
  await model.complete();
  const { y } = await model.run({ x: new Float32Array(model.inputs[0].shape[0] * 8) });
  return { phases, zeros: y.every((entry) => entry === 0) };
}"""


def waiting(stack: Stack) -> int:
    ((count,),) = rows(stack, "SELECT count(*) FROM candidate WHERE state = 'waiting'")
    return int(count)


def test_a_page_opens_a_new_model_while_the_queue_is_full(stack: Stack) -> None:
    with GatewayClient(url=stack.url, operator_key=stack.keys.operator) as gateway:
        for number in range(OTHERS):
            # Somebody asked for each by itself, and each takes longer to compile than the model.
            workload = Workload.of("matmul", (96 + number, 256, 256))
            gateway.register(workload, TargetKind.WASM)
        eventually(lambda: waiting(stack) > 10 * OTHERS, "a queue")
        add(gateway, tiny_model())
        with launched_chromium() as browser:
            found = opened(browser, stack.url)
        assert waiting(stack) > 5 * OTHERS, "the queue was not empty meanwhile"
        readiness = gateway.model_readiness("tiny")
        assert (readiness.defaults, readiness.compiled) == (2, 2)
    assert found["zeros"]
    assert found["phases"][0] in ("compile 2", "plan 1"), found


def opened(browser: Browser, url: str) -> dict[str, Any]:
    with page_elsewhere(browser) as page:
        return dict(page.evaluate(SCRIPT, url))
