"""Whole models on WebGPU, on a software adapter, and on WebAssembly where that fails."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page

from fixtures.model_site import write_model
from tests.browser.model_host import (
    CLASS,
    Handler,
    Host,
    close,
    hosting,
    is_right,
    lists,
    page_elsewhere,
    script,
)
from tests.browser.model_plans import chosen, chosen_on_gpu, deep, small
from tests.browser.sites import site
from workers.fleet.chromium import launched_chromium
from workers.fleet.gpu import GpuChoice, gpu_flags

GPU_CLASS = "0123456789abcdef:r101-0:webgpu"

LOSE = """
  // The device of a model's worker is lost when the page says so.
  const lose = `{
    const request = GPUAdapter.prototype.requestDevice;
    GPUAdapter.prototype.requestDevice = async function (...given) {
      const device = await request.apply(this, given);
      new BroadcastChannel("lose").onmessage = () => device.destroy();
      return device;
    };
  }`;
  globalThis.Blob = class extends Blob {
    constructor(parts, options) { super([lose, ...parts], options); }
  };
"""


class GpuHandler(Handler):
    """A static host that answers as a gateway does: a document for each target."""

    def translate_path(self, path: str) -> str:
        asked = path.partition("?")[0].split("/")
        if asked[1:3] == ["v1", "models"]:
            target = "webgpu" if ":webgpu" in asked[4].replace("%3A", ":") else "wasm"
            return str(self.host.folder / target / f"{asked[3]}.json")
        return super().translate_path(path)


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    made = Host(tmp_path_factory.mktemp("models"))
    for network in (small(), deep("deep", 12)):
        keys = network.plan.kernels
        for target, pick, of in (("webgpu", chosen_on_gpu, GPU_CLASS), ("wasm", chosen, CLASS)):
            folder = made.folder / target
            write_model(folder, of, network.plan, network.files, {key: pick(key) for key in keys})
            for file in folder.rglob("*.*"):
                served = made.folder / file.relative_to(folder)
                served.parent.mkdir(parents=True, exist_ok=True)
                served.write_bytes(file.read_bytes())
    with hosting(made, GpuHandler):
        yield made


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with launched_chromium(*gpu_flags(GpuChoice.SOFTWARE)) as launched:
        yield launched


@pytest.fixture(scope="module")
def page(browser: Browser) -> Iterator[Page]:
    with page_elsewhere(browser) as opened:
        yield opened


RUN = """
  const zoo = await open();
  const model = await zoo.model(`${host}/webgpu/small.json`);
  const zero = { ids: feeds.ids.map(() => 0), x: feeds.x };
  const runs = await Promise.all([feeds, zero, feeds, zero, feeds].map((each) => model.run(each)));
  const { calls, totalMs } = await model.profile({ runs: 1 });
  const { plan } = model;
  const stop = new AbortController();
  const stopped = refusal(() => model.run(feeds, { signal: stop.signal }));
  stop.abort(new Error("enough"));
  const reason = await stopped;
  const plain = ([name, data]) => [name, [...data].map(Number)];
  const listed = runs.map((outputs) => Object.fromEntries(Object.entries(outputs).map(plain)));
  await model.dispose();
  return { listed, plan, reason, totalMs,
           took: calls.map((call) => call.elapsedMs) };
"""


def test_a_model_on_the_gpu_computes_what_numpy_does(page: Page, host: Host) -> None:
    """Also in runs that overlap, each with inputs of its own."""
    network = small()
    found = page.evaluate(script(RUN), [host.url, lists(network.feeds)])
    first, second, *_ = runs = found["listed"]
    assert is_right(first, network)
    assert not close(second["y"], network.outputs["y"])
    assert [each["y"] == first["y"] for each in runs] == [True, False, True, False, True]
    plan = found["plan"]
    assert (plan["target"], plan["targetReason"]) == ("webgpu", None)
    assert plan["deviceClass"] == GPU_CLASS
    assert found["reason"] == "Error: enough"
    assert all(ms > 0 for ms in found["took"])
    assert plan["memoryBytes"] >= network.plan.memory.weights


LOST = """
  const zoo = await open({ backend: "webgpu" });
  const model = await zoo.model("deep");
  const told = [];
  model.on("devicelost", ({ reason }) => told.push(reason));
  const before = model.plan;
  const first = await model.run(feeds);
  new BroadcastChannel("lose").postMessage(null);
  const second = await model.run(feeds);
  const after = model.plan;
  const third = await model.run(feeds);
  await model.dispose();
  const later = await zoo.model("deep");
  const { target, targetReason } = later.plan;
  await later.dispose();
  zoo.dispose();
  const ys = [first, second, third].map(({ y }) => [...y]);
  return { told, before, after, target, targetReason, ys };
"""


def test_a_model_goes_on_on_wasm_when_its_gpu_is_lost(browser: Browser, host: Host) -> None:
    network = deep("deep", 12)
    with site({}) as address:
        page = browser.new_context().new_page()
        page.add_init_script(LOSE)
        page.goto(address)
        found = page.evaluate(script(LOST), [host.url, lists(network.feeds)])
        page.context.close()
    assert all(close(y, network.outputs["y"]) for y in found["ys"])
    assert found["before"]["target"] == "webgpu"
    assert found["after"]["target"] == "wasm"
    assert "lost" in found["after"]["targetReason"]
    assert found["told"] == [found["after"]["targetReason"]]
    assert found["target"] == "wasm", "and no model of this tab tries it again"
    assert "lost" in found["targetReason"]
