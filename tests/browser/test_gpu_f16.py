"""A workload of float16 from end to end on a software adapter, which has no shader-f16."""

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from cli.gateway_client import GatewayClient
from cli.stack.supervisor import Stack
from kernelzoo.domain.target import TargetKind
from kernelzoo.domain.workload import Workload
from tests.browser.sites import site
from tests.running import eventually, rows
from workers.fleet.chromium import launched_chromium
from workers.fleet.gpu import GpuChoice, gpu_flags

KEY = "matmul+bias:f16:m5k20n12"
USE = """async ([url, key, values, one]) => {
  const { KernelZoo } = await import(`${url}/client/sdk.js`);
  const zoo = await KernelZoo.open(url, { backend: "webgpu" });
  const kernel = await zoo.kernel(key);
  const output = [...(await kernel.runAsync(values))];
  const { gpu } = kernel;
  gpu.write("a", new Uint16Array(values.a.length).fill(one));
  gpu.submit();
  const ones = [...(await gpu.read())];
  const verified = await kernel.verify();
  let refusal = "";
  try { kernel.run(values); } catch (thrown) { refusal = thrown.message; }
  const { info } = kernel;
  zoo.dispose();
  return { output, ones, verified, info, refusal };
}"""


@pytest.fixture(scope="module")
def page(stack: Stack) -> Iterator[Page]:
    with launched_chromium(*gpu_flags(GpuChoice.SOFTWARE)) as browser, site({}) as address:
        yield _measured(stack, browser, address)


def _measured(stack: Stack, browser: Browser, address: str) -> Page:
    """A page, once an agent has measured kernels of float16 that the aggregator found right."""
    with GatewayClient(url=stack.url, operator_key=stack.keys.operator) as gateway:
        gateway.register(Workload.parse(KEY), TargetKind.WEBGPU)
    agent = browser.new_page()
    agent.goto(f"{stack.url}/agent?start=1")
    found = "SELECT DISTINCT outcome, verdict FROM measurement"
    eventually(
        lambda: rows(stack, found) == [("ok", "verified")], "verified measurements", within_s=90
    )
    agent.close()
    page = browser.new_page()
    page.goto(address)
    return page


def test_a_page_runs_float16_from_float32_and_from_bits(stack: Stack, page: Page) -> None:
    m, k, n = Workload.parse(KEY).extents
    a = [(i % 5) / 4 for i in range(m * k)]
    b = [(i % 7) / 8 for i in range(k * n)]
    bias = [j / 4 for j in range(n)]
    values = {"a": a, "b": b, "bias": bias}
    found: dict[str, Any] = page.evaluate(USE, [stack.url, KEY, values, 0x3C00])
    wanted = [
        bias[j] + sum(a[i * k + p] * b[p * n + j] for p in range(k))
        for i in range(m)
        for j in range(n)
    ]
    assert found["output"] == pytest.approx(wanted, rel=2**-10)
    sums = [bias[j] + sum(b[p * n + j] for p in range(k)) for j in range(n)]
    assert found["ones"] == pytest.approx(m * sums, rel=2**-10)
    assert found["verified"]["ok"] is True
    assert (found["info"]["workload"], found["info"]["backend"]) == (KEY, "webgpu")
    assert "no kernel of wasm" in found["refusal"]


def test_nothing_that_needs_the_type_was_lent_to_an_adapter_without_it(stack: Stack) -> None:
    lent = (
        "SELECT DISTINCT 'shader-f16' = ANY (c.requires) FROM measurement m "
        "JOIN candidate c USING (candidate_id)"
    )
    assert rows(stack, lent) == [(False,)]
