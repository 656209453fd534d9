"""The SDK in a page of another origin that is not isolated, as on anybody's site."""

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import BrowserContext, Page

from kernelzoo.cli.gateway_client import GatewayClient
from kernelzoo.cli.stack.supervisor import Stack
from kernelzoo.domain.target import TargetKind
from kernelzoo.domain.workload import Workload
from tests.browser.sites import site
from tests.running import eventually

KEY = "matmul:f32:m48k33n40"

USE_THE_ZOO = """async ([url, key]) => {
  const { KernelZoo } = await import(`${url}/client/sdk.js`);
  const zoo = await KernelZoo.open(url);
  const kernel = await zoo.kernel(key);
  const { a, b } = kernel.inputs;
  a.forEach((_, i) => { a[i] = Math.sin(i); });
  b.forEach((_, i) => { b[i] = Math.cos(i); });
  kernel.run();
  return {
    info: kernel.info,
    deviceClass: zoo.deviceClass,
    output: [...kernel.output],
    a: [...a],
    b: [...b],
    isolated: crossOriginIsolated,
  };
}"""


@pytest.fixture(scope="module")
def other_origin() -> Iterator[str]:
    with site({}) as address:
        yield address


@pytest.fixture(scope="module", autouse=True)
def job(stack: Stack) -> None:
    with GatewayClient(url=stack.url, operator_key=stack.keys.operator) as gateway:
        opened = gateway.register(Workload.parse(KEY), TargetKind.WASM)
        eventually(lambda: gateway.job(opened.job).compiled > 0, "compiling")


@pytest.fixture
def page(context: BrowserContext, other_origin: str) -> Page:
    opened = context.new_page()
    opened.goto(other_origin)
    return opened


def is_product(used: dict[str, Any]) -> bool:
    """Every entry of the output, against sums in float64."""
    m, k, n = Workload.parse(KEY).extents
    return all(
        abs(
            used["output"][i * n + j]
            - sum(used["a"][i * k + p] * used["b"][p * n + j] for p in range(k))
        )
        < 1e-4
        for i in range(m)
        for j in range(n)
    )


def test_a_device_the_zoo_does_not_know_is_served_the_default_and_then_the_winner(
    stack: Stack, page: Page, context: BrowserContext
) -> None:
    before = page.evaluate(USE_THE_ZOO, [stack.url, KEY])
    assert before["isolated"] is False
    assert before["info"]["level"] == "default"
    assert is_product(before)

    agent = context.browser.new_page() if context.browser else context.new_page()
    agent.goto(f"{stack.url}/agent?start=1")
    voted = "kernelzooAgent.events.some((event) => event.type === 'ballot' && event.final)"
    eventually(lambda: bool(agent.evaluate(voted)), "a final ballot")
    agent.close()
    with GatewayClient(url=stack.url) as gateway:
        eventually(lambda: bool(gateway.entries()), "a zoo entry")
        (entry,) = gateway.entries()

    page.reload()
    after = page.evaluate(USE_THE_ZOO, [stack.url, KEY])
    assert after["deviceClass"] == entry.device_class, "agent and page are one device"
    assert (after["info"]["level"], after["info"]["state"]) == ("exact", "confirmed")
    assert after["info"]["sha256"] == entry.artifact
    assert is_product(after)


def test_an_unknown_workload_is_refused_with_what_to_do(stack: Stack, page: Page) -> None:
    with pytest.raises(Exception, match="kernelzoo tune"):
        page.evaluate(USE_THE_ZOO, [stack.url, "matmul:f32:m1k2n3"])


def test_bytes_that_do_not_match_their_hash_are_not_run(stack: Stack, page: Page) -> None:
    def tamper(route: Any) -> None:
        answer = route.fetch()
        body = bytearray(answer.body())
        body[-1] ^= 1
        route.fulfill(response=answer, body=bytes(body))

    page.route("**/v1/artifacts/**", tamper)
    with pytest.raises(Exception, match=r"hash|SHA-256"):
        page.evaluate(USE_THE_ZOO, [stack.url, KEY])
