"""A page on a plain static host that runs kernels of a bundle, and no others."""

import json
from collections.abc import Iterator
from pathlib import Path
from shutil import copy
from typing import Any

import pytest
from playwright.sync_api import Page

from cli.bundle.collecting import collect
from cli.bundle.storing import write
from cli.bundle.verifying import verified
from cli.demo.examples import served_examples
from cli.gateway_client import GatewayClient
from cli.stack.supervisor import Stack
from kernelzoo.domain.target import TargetKind
from kernelzoo.domain.workload import Workload
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
    for name in ("sdk.js", *json.loads((DIST / "sdk.json").read_text())["chunks"]):
        copy(DIST / name, site)
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
