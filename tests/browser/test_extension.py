"""Extensions of manifest version 3, as Chromium loads them: all they run is in their folder."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from hashlib import sha256
from json import dumps, loads
from pathlib import Path
from shutil import copy, copytree
from typing import Any

import pytest
from playwright.sync_api import Page, sync_playwright

from fixtures.model_site import write_model
from tests.browser.model_host import CLASS, CLIENT, Host, is_right, lists
from tests.browser.model_plans import chosen_in_javascript, small
from workers.fleet.chromium import opened_profile

PLAIN_CLASS = "0000000000000000:r0-0:javascript"
WASM = {"extension_pages": "script-src 'self' 'wasm-unsafe-eval'; object-src 'self'"}
ISOLATION = {
    "cross_origin_embedder_policy": {"value": "require-corp"},
    "cross_origin_opener_policy": {"value": "same-origin"},
}
RUN = """async ([file, feeds, options]) => {
  const { KernelZoo } = await import("/sdk/sdk.js");
  const zoo = await KernelZoo.open(location.origin, options);
  const model = await zoo.model(file);
  const given = { ids: BigInt64Array.from(feeds.ids, BigInt), x: Float32Array.from(feeds.x) };
  const ran = Object.entries(await model.run(given));
  await model.complete();
  const { target, threads } = model.plan;
  const outputs = Object.fromEntries(ran.map(([name, data]) => [name, [...data].map(Number)]));
  await model.dispose();
  return { outputs, target, threads, isolated: crossOriginIsolated };
}"""


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page, the SDK, and a model for WebAssembly and for pages without."""
    folder = tmp_path_factory.mktemp("extension")
    (folder / "sdk" / "chunks").mkdir(parents=True)
    for name in ("sdk.js", *loads((CLIENT / "sdk.json").read_text())["chunks"]):
        copy(CLIENT / name, folder / "sdk" / name)
    (folder / "page.html").write_text("<!doctype html><title>an extension</title>")
    host, network = Host(folder / "wasm"), small()
    host.write_for(CLASS, network)
    kernels = {each.key: chosen_in_javascript(each) for each in network.workloads.values()}
    write_model(folder / "plain", PLAIN_CLASS, network.plan, network.files, kernels)
    return folder


@contextmanager
def extension(files: Path, place: Path, more: Mapping[str, Any]) -> Iterator[Page]:
    """Its page, where a browser has loaded it with a manifest that says `more`."""
    folder = copytree(files, place / "extension")
    manifest = {"manifest_version": 3, "name": "reader", "version": "1", **more}
    (folder / "manifest.json").write_text(dumps(manifest))
    # Chromium calls what has no key after the first half of the hash of its path.
    digits = sha256(str(folder).encode()).hexdigest()[:32]
    name = "".join(chr(ord("a") + int(digit, 16)) for digit in digits)
    flags = (f"--disable-extensions-except={folder}", f"--load-extension={folder}")
    with (
        sync_playwright() as playwright,
        opened_profile(playwright.chromium, str(place / "profile"), *flags) as context,
    ):
        page = context.new_page()
        page.goto(f"chrome-extension://{name}/page.html")
        yield page


@pytest.mark.parametrize("threads", [1, 2])
def test_an_extension_runs_a_model_on_webassembly_that_its_policy_allows(
    files: Path, tmp_path: Path, threads: int
) -> None:
    network = small()
    more = {"content_security_policy": WASM, **(ISOLATION if threads > 1 else {})}
    asked = [lists(network.feeds), {"threads": threads, "backend": "wasm"}]
    with extension(files, tmp_path, more) as page:
        found = page.evaluate(RUN, ["/wasm/small.json", *asked])
    assert is_right(found["outputs"], network)
    assert (found["target"], found["threads"]) == ("wasm", threads)
    assert found["isolated"] == (threads > 1)


def test_an_extension_with_the_policy_that_it_has_by_default_runs_a_model_in_javascript(
    files: Path, tmp_path: Path
) -> None:
    network = small()
    with extension(files, tmp_path, {}) as page:
        found = page.evaluate(RUN, ["/plain/small.json", lists(network.feeds), {}])
        refused = page.evaluate(
            "() => { try { new WebAssembly.Module(new Uint8Array(8)); } "
            "catch (thrown) { return String(thrown); } }"
        )
    assert is_right(found["outputs"], network)
    assert found["target"] == "javascript"
    assert "Content Security" in refused
