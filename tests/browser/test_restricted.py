"""Pages that may do less than others: Trusted Types, no workers, service workers."""

from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from playwright.sync_api import Browser, Page

from kernelzoo.serving import serving
from tests.browser.model_host import Host, hosting, is_right, lists, script
from tests.browser.model_plans import small
from tests.browser.sites import ISOLATED, site

TRUSTED = "require-trusted-types-for 'script'; trusted-types kernelzoo"
RUN = """
  const plain = ([name, data]) => [name, [...data].map(Number)];
  const runs = async (options, of) => {
    const zoo = await open(options);
    const model = await zoo.model(`${host}/small.json`, of);
    await model.complete();
    const give = { ids: BigInt64Array.from(feeds.ids, BigInt), x: Float32Array.from(feeds.x) };
    const outputs = Object.fromEntries(Object.entries(await model.run(give)).map(plain));
    const { threads } = model.plan;
    await model.dispose();
    return { outputs, threads };
  };
"""


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    made = Host(tmp_path_factory.mktemp("restricted"))
    with hosting(made):
        made.write(small())
        yield made


def visit(browser: Browser, address: str) -> Page:
    page = browser.new_page()
    page.goto(address)
    return page


@pytest.mark.parametrize("isolation", [{}, ISOLATED], ids=["alone", "isolated"])
def test_a_page_with_trusted_types_runs_models_by_the_policy_kernelzoo(
    browser: Browser, host: Host, isolation: dict[str, str]
) -> None:
    """Threads, a tuner whose workers start others, and a worker beside are there."""
    network = small()
    run = """
      let refused = null;
      try { new Worker("/other.js"); } catch (thrown) { refused = thrown.name; }
      const found = [await runs({ threads: 2 }), await runs({}, { tune: "idle" })];
      return { refused, found };
    """
    with site({**isolation, "Content-Security-Policy": TRUSTED}) as address:
        page = visit(browser, address)
        found = page.evaluate(script(RUN + run), [host.url, lists(network.feeds)])
        page.close()
    assert found["refused"] == "TypeError", "the page's types are enforced"
    for ran in found["found"]:
        assert is_right(ran["outputs"], network)
    assert found["found"][0]["threads"] == (2 if isolation else 1)


@pytest.mark.parametrize("denied", ["by its policy", "as there are none"])
def test_a_page_without_workers_is_told_so(browser: Browser, host: Host, denied: str) -> None:
    headers = {"Content-Security-Policy": "worker-src 'none'"} if denied == "by its policy" else {}
    run = """
      if (feeds.none) delete globalThis.Worker;
      const told = async (work) => {
        try { return await work(); } catch (thrown) {
          return [thrown instanceof KernelZooError, thrown.message];
        }
      };
      const zoo = await open();
      return [
        await told(() => zoo.model(`${host}/small.json`)),
        await told(() => zoo.languageModel(`${host}/small.json`)),
      ];
    """
    with site(headers) as address:
        page = visit(browser, address)
        found = page.evaluate(script(run), [host.url, {"none": not headers}])
        page.close()
    for is_error, message in found:
        assert is_error, message
    assert ("worker-src blob:" if headers else "Models run in workers") in found[0][1]


def test_a_page_that_opens_and_closes_a_hundred_zoos_has_memory_left(
    browser: Browser, host: Host
) -> None:
    run = """
      const zoos = [];
      for (let n = 0; n < 100; n++) zoos.push(await open());
      for (const zoo of zoos) zoo.dispose();
      return runs({});
    """
    network = small()
    with site({}) as address:
        page = visit(browser, address)
        found = page.evaluate(script(RUN + run), [host.url, lists(network.feeds)])
        page.close()
    assert is_right(found["outputs"], network)


IN_SERVICE_WORKER = """
import {{ KernelZoo, KernelZooError }} from "{host}/client/sdk.js";
onmessage = ({{ source }}) => event(source);
async function event(source) {{
  const told = async (work) => {{
    try {{ await work(); return "nothing was refused"; }} catch (thrown) {{
      return `${{thrown instanceof KernelZooError}} ${{thrown.stage}}: ${{thrown.message}}`;
    }}
  }};
  const zoo = await KernelZoo.open("{host}");
  source.postMessage([
    await told(() => zoo.model("{host}/small.json")),
    await told(() => zoo.kernel("add:f32:n8")),
  ]);
}}
"""
ASK_SERVICE_WORKER = """async () => {
  const registration = await navigator.serviceWorker.register("/worker.js", { type: "module" });
  const worker = registration.installing ?? registration.waiting ?? registration.active;
  if (worker.state !== "activated") {
    await new Promise((resolve) => worker.addEventListener("statechange", () => {
      if (worker.state === "activated") resolve();
    }));
  }
  const told = new Promise((resolve) => {
    navigator.serviceWorker.onmessage = ({ data }) => resolve(data);
  });
  worker.postMessage(null);
  return told;
}"""


def test_a_service_worker_imports_the_sdk_and_is_told_what_it_cannot_run(
    browser: Browser, host: Host
) -> None:
    body = IN_SERVICE_WORKER.format(host=host.url).encode()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            script_asked = self.path == "/worker.js"
            self.send_response(200)
            self.send_header("Content-Type", "text/javascript" if script_asked else "text/html")
            self.end_headers()
            self.wfile.write(body if script_asked else b"<!doctype html>")

        def log_message(self, *_: object) -> None:
            pass

    with serving(ThreadingHTTPServer(("127.0.0.1", 0), Handler)) as server:
        page = visit(browser, f"http://127.0.0.1:{server.server_port}")
        model, kernel = page.evaluate(ASK_SERVICE_WORKER)
        page.close()
    assert model.startswith("true run: Models run in workers")
    assert kernel.startswith("true manifest: "), "it was asked for, without a probe"
