"""The SDK in a page of another origin that is not isolated, as on anybody's site."""

import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import pytest
from playwright.sync_api import BrowserContext, Page

from cli.gateway_client import GatewayClient
from cli.stack.supervisor import Stack
from kernelzoo.domain.target import TargetKind
from kernelzoo.domain.workload import Workload
from services.gateway.wire.zoo import ZooEntry
from tests.browser.sites import site
from tests.examples import one_in
from tests.running import eventually
from workers.fleet.browsers import BrowserKind, Launch
from workers.fleet.firefox import Firefox, start_firefox
from workers.fleet.installed import MISSING
from workers.fleet.webkit import WebKit, start_webkit

KEY = "matmul:f32:m48k33n40"
CONSTANT_KEY = f"{KEY}:constant=b"
GATHER_KEY = "gather:f32:m9k20n13"
I8_KEY = "matmul_i8+scales:f32:m3k20n17"

USE_THE_ZOO = """async ([url, key, options]) => {
  const { KernelZoo } = await import(`${url}/client/sdk.js`);
  const zoo = await KernelZoo.open(url, options);
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


WITH_CONSTANT_WEIGHTS = """async ([url, key]) => {
  const { KernelZoo } = await import(`${url}/client/sdk.js`);
  const zoo = await KernelZoo.open(url);
  const b = Float32Array.from({ length: 33 * 40 }, (_, i) => Math.cos(i));
  const a = Float32Array.from({ length: 48 * 33 }, (_, i) => Math.sin(i));
  const kernel = await zoo.kernel(key, { constant: { b } });
  kernel.run({ a: a.map(() => 7) });
  kernel.run({ a });
  return {
    info: kernel.info,
    inputs: Object.keys(kernel.inputs),
    verified: await kernel.verify(),
    output: [...kernel.output],
    a: [...a],
    b: [...b],
  };
}"""

VERIFIED = """async ([url, key]) => {
  const { KernelZoo } = await import(`${url}/client/sdk.js`);
  const zoo = await KernelZoo.open(url);
  const b = Float32Array.from({ length: 33 * 40 }, (_, i) => Math.cos(i));
  const a = Float32Array.from({ length: 48 * 33 }, (_, i) => Math.sin(i));
  const kernel = await zoo.kernel(key, { constant: { b }, verify: true });
  return {
    output: [...kernel.run({ a })],
    info: kernel.info,
    deviceClass: zoo.deviceClass,
    a: [...a],
    b: [...b],
  };
}"""

TYPED_INPUTS = """async ([url, key, values]) => {
  const { KernelZoo } = await import(`${url}/client/sdk.js`);
  const kernel = await (await KernelZoo.open(url)).kernel(key);
  const output = [...kernel.run(values)];
  const { inputs } = kernel;
  const types = Object.entries(inputs).map(([name, view]) => [name, view.constructor.name]);
  return { types: Object.fromEntries(types), output, verified: await kernel.verify() };
}"""


STARTED: dict[BrowserKind, Callable[[Launch], Firefox | WebKit]] = {
    BrowserKind.FIREFOX: start_firefox,
    BrowserKind.WEBKIT: start_webkit,
}


@pytest.fixture(scope="module")
def other_origin() -> Iterator[str]:
    with site({}) as address:
        yield address


@pytest.fixture(scope="module", autouse=True)
def job(stack: Stack) -> None:
    with GatewayClient(url=stack.url, operator_key=stack.keys.operator) as gateway:
        for key in (KEY, CONSTANT_KEY, GATHER_KEY, I8_KEY):
            opened = gateway.register(Workload.parse(key), TargetKind.WASM)
            eventually(partial(compiled, gateway, opened.job), "compiling")


def compiled(gateway: GatewayClient, job: int) -> bool:
    return gateway.job(job).compiled > 0


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


@pytest.mark.parametrize("kind", one_in(2, [BrowserKind.FIREFOX, BrowserKind.WEBKIT]))
def test_a_page_in_another_engine_that_asks_for_a_gpu_gets_webassembly_and_the_reason(
    stack: Stack, other_origin: str, tmp_path: Path, kind: BrowserKind
) -> None:
    if (package := MISSING[kind]()) is not None:
        pytest.skip(f"{kind} is not here; install it with `apt-get install {package}`")
    launch = Launch(profile=tmp_path, gpu=None, sandbox=False)
    browser = STARTED[kind](launch)
    try:
        browser.connect()
        browser.goto(other_origin)
        found = browser.evaluate(USE_THE_ZOO, [stack.url, KEY, {"backend": "webgpu"}])
    finally:
        browser.kill()
    assert is_product(found)
    assert found["info"]["backend"] == "wasm"
    assert "no WebGPU" in found["info"]["backendReason"]


def test_a_device_the_zoo_does_not_know_is_served_the_default_and_then_the_winner(
    stack: Stack, page: Page, context: BrowserContext
) -> None:
    before = page.evaluate(USE_THE_ZOO, [stack.url, KEY])
    assert before["isolated"] is False
    assert before["info"]["level"] == "default"
    assert is_product(before)

    agent = context.browser.new_page() if context.browser else context.new_page()
    # The operator's, so that this one voter is enough for its class to speak for others.
    host = json.dumps({"operatorKey": stack.keys.operator})
    agent.add_init_script(f"globalThis.kernelzooHost = {host}")
    agent.goto(f"{stack.url}/agent?start=1")
    voted = """(key) => kernelzooAgent.events.some(
      (event) => event.type === "ballot" && event.final && event.workload === key)"""
    eventually(lambda: bool(agent.evaluate(voted, KEY)), "a final ballot")
    agent.close()
    with GatewayClient(url=stack.url) as gateway:
        eventually(lambda: bool(of_key(gateway.entries())), "a zoo entry")
        (entry,) = of_key(gateway.entries())
    speaking = (
        "SELECT speaks FROM zoo_entry WHERE workload_key = %s AND device_class = %s"
        " AND state = 'confirmed'"
    )
    asked = (KEY, entry.device_class)
    with psycopg.connect(stack.postgres.url, autocommit=True) as db:
        eventually(lambda: db.execute(speaking, asked).fetchall() == [(True,)], "that it speaks")

    page.reload()
    own = page.evaluate(USE_THE_ZOO, [stack.url, KEY])["deviceClass"]
    device_id, rho, target = entry.device_class.split(":")
    assert own.startswith(f"{device_id}:"), "agent and page are one device"
    # ρ is timed, and each of them took its own: on a busy machine they may differ in a bit.
    other_rho = f"{rho[:-1]}{1 - int(rho[-1])}"
    levels = {
        entry.device_class: ("exact", "confirmed"),
        f"{device_id}:{other_rho}:{target}": ("device", None),
    }
    for device_class, level in levels.items():
        # Pages may be given what was right two seconds ago, and the vote may go on meanwhile.
        after: dict[str, Any] = {}

        def newest(of: str = device_class, into: dict[str, Any] = after) -> bool:
            into |= page.evaluate(USE_THE_ZOO, [stack.url, KEY, {"deviceClass": of}])
            with GatewayClient(url=stack.url) as gateway:
                (served,) = of_key(gateway.entries())
            return bool(into["info"]["sha256"] == served.artifact)

        eventually(newest, "the winner")
        assert (after["info"]["level"], after["info"]["state"]) == level
        assert is_product(after)


def of_key(entries: tuple[ZooEntry, ...]) -> list[ZooEntry]:
    return [entry for entry in entries if entry.workload == KEY]


def test_weights_that_a_page_calls_constant_are_packed_once(stack: Stack, page: Page) -> None:
    used = page.evaluate(WITH_CONSTANT_WEIGHTS, [stack.url, KEY])
    assert used["info"]["workload"] == CONSTANT_KEY
    assert used["inputs"] == ["a"]
    assert used["verified"]["ok"] is True
    assert is_product(used)
    manifest = page.evaluate(
        "async (url) => (await (await fetch(url)).json()).entries",
        f"{stack.url}/v1/zoo/{KEY}/0123456789abcdef:r1-0:wasm+simd128",
    )
    layouts = {entry["workload"]: entry["wasm"]["kernel"]["layouts"] for entry in manifest}
    assert layouts[KEY] == []
    assert [layout["tensor"] for layout in layouts[CONSTANT_KEY]] == ["b"], "else nothing is tested"


def test_a_kernel_that_is_wrong_here_gives_way_to_the_default_and_the_zoo_hears_of_it(
    stack: Stack, page: Page
) -> None:
    """No output is as exact as the manifest demands then, so that the served kernel is wrong."""
    failed = []

    def demand(route: Any) -> None:
        manifest = route.fetch().json()
        plain, packed = (entry["wasm"] for entry in manifest["entries"])
        packed.update(tolerance=-1, fallback=plain["kernel"])
        failed.append(packed["kernel"]["sha256"])
        route.fulfill(json=manifest)

    page.route("**/v1/zoo/**", demand)
    used = page.evaluate(VERIFIED, [stack.url, KEY])
    assert is_product(used)
    assert used["info"]["sha256"] != failed[0]
    assert "is right" in used["info"]["fallbackReason"]
    told = (CONSTANT_KEY, used["deviceClass"], failed[0], "compare")
    asked = "SELECT workload_key, device_class, artifact_sha256, stage FROM page_failure"
    with psycopg.connect(stack.postgres.url) as db:
        eventually(lambda: db.execute(asked).fetchall() == [told], "the failure in the zoo")


def test_rows_of_a_table_are_gathered_by_whole_numbers(stack: Stack, page: Page) -> None:
    m, k, n = Workload.parse(GATHER_KEY).extents
    indices = [(7 * i) % k for i in range(m)]
    table = [float(i) for i in range(k * n)]
    used = page.evaluate(TYPED_INPUTS, [stack.url, GATHER_KEY, {"a": table, "indices": indices}])
    assert used["types"] == {"a": "Float32Array", "indices": "Int32Array"}
    assert used["output"] == [table[row * n + column] for row in indices for column in range(n)]
    assert used["verified"]["ok"] is True


def test_weights_of_eight_bits_are_scaled_column_by_column(stack: Stack, page: Page) -> None:
    m, k, n = Workload.parse(I8_KEY).extents
    a = [(i % 5) / 4 for i in range(m * k)]
    b = [(37 * i) % 256 - 128 for i in range(k * n)]
    scales = [(i % 3) / 8 for i in range(n)]
    given = {"a": a, "b": b, "scales": scales}
    used = page.evaluate(TYPED_INPUTS, [stack.url, I8_KEY, given])
    assert used["types"] == {"a": "Float32Array", "b": "Int8Array", "scales": "Float32Array"}
    wanted = [
        scales[j] * sum(a[i * k + p] * b[p * n + j] for p in range(k))
        for i in range(m)
        for j in range(n)
    ]
    assert used["output"] == pytest.approx(wanted, abs=1e-3)
    assert used["verified"]["ok"] is True


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
