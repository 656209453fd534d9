"""Kernels on several threads, in pages of another origin: isolated, not isolated, and strict."""

from functools import partial
from typing import Any

import pytest
from playwright.sync_api import BrowserContext

from cli.gateway_client import GatewayClient
from cli.stack.supervisor import Stack
from kernelzoo.domain.target import TargetKind
from kernelzoo.domain.workload import Workload
from tests.browser.sites import ISOLATED, site
from tests.running import eventually

# One that packs b into scratch, which each thread needs for itself; one with a batch; one whose
# outermost loop has fewer iterations than there are threads.
KEYS = ("matmul:f32:m96k192n384", "batch_matmul:f32:b5m33k17n24", "matmul:f32:m3k7n5")
SCRATCH_KEY = KEYS[0]
STRICT = "script-src 'self' 'unsafe-inline' 'wasm-unsafe-eval' http:; worker-src 'self'"

COMPARE = """async ([url, key, use]) => {
  const { KernelZoo } = await import(`${url}/client/sdk.js`);
  const zoo = await KernelZoo.open(url, { threads: 3 });
  const kernel = await zoo.kernel(key, { use });
  const { a, b } = kernel.inputs;
  a.forEach((_, i) => { a[i] = Math.sin(i); });
  b.forEach((_, i) => { b[i] = Math.cos(i); });
  const alone = kernel.run().slice();
  let different = 0;
  for (let run = 0; run < 20; run++) {
    kernel.output.fill(NaN);
    const output = await kernel.runAsync();
    different += output.filter((entry, i) => !Object.is(entry, alone[i])).length;
  }
  const { threads, singleThreadReason } = kernel.info;
  kernel.dispose();
  zoo.dispose();
  return { isolated: crossOriginIsolated, threads, singleThreadReason, different, alone: alone[1] };
}"""


def compiled(gateway: GatewayClient, job: int) -> bool:
    return gateway.job(job).compiled > 0


@pytest.fixture(scope="module", autouse=True)
def jobs(stack: Stack) -> None:
    with GatewayClient(url=stack.url, operator_key=stack.keys.operator) as gateway:
        for key in KEYS:
            opened = gateway.register(Workload.parse(key), TargetKind.WASM)
            eventually(partial(compiled, gateway, opened.job), "compiling")


def compared(
    stack: Stack, context: BrowserContext, headers: dict[str, str], key: str
) -> dict[str, Any]:
    with site(headers) as address:
        page = context.new_page()
        page.goto(address)
        found: dict[str, Any] = page.evaluate(COMPARE, [stack.url, key, "best"])
        page.close()
    return found


@pytest.mark.parametrize("key", KEYS)
def test_an_isolated_page_gets_the_same_bits_from_three_threads(
    stack: Stack, context: BrowserContext, key: str
) -> None:
    found = compared(stack, context, ISOLATED, key)
    assert found["isolated"] is True
    assert (found["threads"], found["singleThreadReason"]) == (3, None)
    assert found["different"] == 0
    assert found["alone"] != 0


def test_a_page_that_is_not_isolated_falls_back_to_one_thread(
    stack: Stack, context: BrowserContext
) -> None:
    found = compared(stack, context, {}, SCRATCH_KEY)
    assert found["isolated"] is False
    assert found["threads"] == 1
    assert "not cross-origin isolated" in found["singleThreadReason"]
    assert found["different"] == 0


def test_a_policy_without_blob_workers_falls_back_to_one_thread(
    stack: Stack, context: BrowserContext
) -> None:
    found = compared(stack, context, {**ISOLATED, "Content-Security-Policy": STRICT}, SCRATCH_KEY)
    assert found["isolated"] is True
    assert found["threads"] == 1
    assert "worker-src blob:" in found["singleThreadReason"]
    assert found["different"] == 0


def test_a_page_goes_on_while_threads_run_and_a_kernel_in_use_is_refused(
    stack: Stack, context: BrowserContext
) -> None:
    with site(ISOLATED) as address:
        page = context.new_page()
        page.goto(address)
        refusal = page.evaluate(
            """async ([url, key]) => {
              const { KernelZoo } = await import(`${url}/client/sdk.js`);
              const zoo = await KernelZoo.open(url, { threads: 2 });
              const kernel = await zoo.kernel(key);
              const running = kernel.runAsync();
              let refusal = "";
              try { kernel.run(); } catch (error) { refusal = error.message; }
              kernel.dispose();
              await running;
              try { kernel.run(); } catch (error) { refusal += error.message; }
              return refusal;
            }""",
            [stack.url, SCRATCH_KEY],
        )
    assert "Await its `runAsync` first" in refusal
    assert "disposed of" in refusal
