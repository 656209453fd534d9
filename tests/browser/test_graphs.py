"""Models that a device keeps by keys of the page, and what may befall them."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from tests.browser.model_host import Host, close, hosting, lists, page_elsewhere, script
from tests.browser.model_plans import deep, small
from tests.browser.sites import ISOLATED, site
from tests.plans import PlannedNetwork

Run = Callable[[str], Any]
"""Evaluates the body of a function in a page."""

PRIVATE = """
  // As in private windows of Firefox and Safari, which have no such files.
  navigator.storage.getDirectory = async () => { throw new DOMException("", "SecurityError"); };
"""

VISIT = """
  const folder = async () => {
    const root = await navigator.storage.getDirectory();
    return root.getDirectoryHandle("kernelzoo-graphs", { create: true });
  };
  const names = async () => {
    const found = [];
    for await (const name of (await folder()).keys()) found.push(name);
    return found;
  };
  const fileOf = async (end) => (await folder()).getFileHandle(
    (await names()).find((name) => name.endsWith(end)));
  const change = async (end, changed) => {
    const handle = await fileOf(end);
    const body = changed(new Uint8Array(await (await handle.getFile()).arrayBuffer()));
    const writing = await handle.createWritable();
    await writing.write(body);
    await writing.close();
  };
  const records = (work) => new Promise((resolve, reject) => {
    const opening = indexedDB.open("kernelzoo-graphs", 1);
    opening.onsuccess = () => {
      const change = opening.result.transaction(["descriptions", "pieces"], "readwrite");
      change.oncomplete = () => resolve(opening.result.close());
      change.onabort = () => reject(change.error);
      work(change.objectStore("pieces"), change.objectStore("descriptions"));
    };
  });
  const sentence = (bytes) => new TextDecoder().decode(bytes);
  const damages = {
    none: async () => undefined,
    byte: () => change(".weights", (body) => body.fill(body[2000] ^ 1, 2000, 2001)),
    torn: () => change(".weights", (body) => body.subarray(0, body.length - 8)),
    version: () =>
      change(".json", (body) => sentence(body).replace(/"version":\\d+/, '"version":1')),
    index: () => change(".json", (body) => body.subarray(0, 90)),
    note: async () => localStorage.clear(),
    cleared: async () => (await folder()).removeEntry((await fileOf(".weights")).name),
    kernels: () => change(".json", (body) =>
      sentence(body).replace(/"modules":.{2}"bytes":"AGFzbQEAAAA/, "$&////")),
    "record changed": () => records((pieces) => {
      pieces.openCursor().onsuccess = ({ target: { result } }) => {
        result.update(result.value.fill(result.value[20] ^ 1, 20, 21));
      };
    }),
    "records cleared": () => records((pieces) => pieces.clear()),
  };
  const zoo = await open();
  const opened = async (options = {}) => {
    const model = await zoo.model(`${host}/kept.json`, { save: "mine", ...options });
    const { y } = await model.run(feeds);
    await model.complete();
    return [model, [...y]];
  };
  const loaded = async () => {
    const model = await zoo.loadGraph("mine");
    const { y } = await model.run(feeds);
    const { inputs, outputs } = model;
    await model.dispose();
    return { y: [...y], inputs, outputs };
  };
  const visit = async () => {
    const [model, y] = await opened();
    await model.saved;
    await model.dispose();
    return y;
  };
"""


@pytest.fixture(scope="module")
def network() -> PlannedNetwork:
    return small("kept")


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory, network: PlannedNetwork) -> Iterator[Host]:
    made = Host(tmp_path_factory.mktemp("graphs"))
    for each in (network, deep("long", layers=2, rows=8, width=768)):
        made.write(each)
    with hosting(made):
        yield made


@pytest.fixture(scope="module")
def page(lone_browser: Browser) -> Iterator[Page]:
    with page_elsewhere(lone_browser) as opened:
        yield opened


def runner(page: Page, host: Host, network: PlannedNetwork) -> Run:
    feeds = lists(network.feeds)
    return lambda body: page.evaluate(script(VISIT + body), [host.url, feeds])


@pytest.fixture
def run(page: Page, host: Host, network: PlannedNetwork) -> Run:
    return runner(page, host, network)


def test_a_graph_is_opened_by_its_key_without_the_network(
    page: Page, run: Run, network: PlannedNetwork
) -> None:
    right = network.outputs["y"]
    assert run("return zoo.listGraphs();") == []
    assert run("return refusal(loaded);").startswith("storage: The device keeps no graph mine.")
    y, keys = run(
        "const [model, y] = await opened(); await model.saved; return [y, await zoo.listGraphs()];"
    )
    assert close(y, right)
    assert keys == ["mine"]
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.context.set_offline(True)
    try:
        found = run("return loaded();")
        again = """
          const model = await zoo.loadGraph("mine");
          await zoo.saveGraph("other", model);
          await zoo.deleteGraph("mine");
          const { y } = await model.run(feeds);
          return [[...y], await zoo.listGraphs(), await refusal(loaded)];
        """
        y, keys, refused = run(again)
    finally:
        page.context.set_offline(False)
    assert [url for url in asked if not url.startswith("blob:")] == []
    assert close(found["y"], right)
    described = [(each["name"], each["dtype"], each["shape"]) for each in found["inputs"]]
    assert described == [("ids", "int64", [9]), ("x", "float32", [9, 20])]
    assert [each["name"] for each in found["outputs"]] == ["y", "seen", "table"]
    assert close(y, right), "a model goes on without the graph that it was opened from"
    assert keys == ["other"]
    assert refused.startswith("storage: ")
    run("await zoo.deleteGraph('other');")


def test_what_befalls_a_kept_graph_costs_a_fetch_and_never_a_wrong_number(
    host: Host, run: Run, network: PlannedNetwork
) -> None:
    def visited(damage: str) -> bool:
        """Returns whether the weights were fetched; outputs are right whatever happened to the
        files."""
        host.sent.clear()
        body = f"await damages['{damage}'](); return visit();"
        assert close(run(body), network.outputs["y"]), damage
        return "/kept.weights" in host.sent

    assert visited("none"), "nothing is kept yet"
    assert not visited("none")
    for damage in ("byte", "torn", "version", "index", "cleared", "note"):
        assert visited(damage), damage
        assert not visited("none"), f"kept anew after {damage}"
    for damage, told in (
        ("byte", "cannot be read"),
        ("cleared", "cannot be read"),
        ("version", "Another version has written graph mine"),
        ("kernels", "does not run the kernels of graph mine any more"),
    ):
        refused = run(f"await damages['{damage}'](); return refusal(loaded);")
        assert refused.startswith("storage: "), damage
        assert told in refused
        keys = run("const keys = await zoo.listGraphs(); await visit(); return keys;")
        assert keys == [], "it is removed"
    run("await zoo.deleteGraph('mine');")


STUCK = "navigator.storage.getDirectory = () => new Promise(() => undefined);"


def test_a_first_visit_does_not_wait_for_the_storage(
    lone_browser: Browser, host: Host, network: PlannedNetwork
) -> None:
    """Nothing was noted as kept, so nobody asks it before the model runs."""
    with page_elsewhere(lone_browser, STUCK) as page:
        run = runner(page, host, network)
        assert close(run("return (await opened())[1];"), network.outputs["y"])


AS_MEASURED = """
  // As on a device that packs all weights sooner than it reads them packed.
  const told = Object.getOwnPropertyDescriptor(Worker.prototype, "onmessage");
  Object.defineProperty(Worker.prototype, "onmessage", {
    configurable: true,
    set(listener) {
      told.set.call(this, (event) => {
        const { ways } = event.data;
        if (ways) CHANGED;
        listener(event);
      });
    },
  });
"""
PLAIN = AS_MEASURED.replace("CHANGED", "ways.plain = ways.queues.flat().map(() => true)")
BESIDE = """{
          const all = ways.queues.flat().sort((a, b) => a - b);
          ways.plain = all.map(() => true);
          ways.queues = ways.queues.map((_, thread) => (thread === 1 ? all : []));
        }"""
KEPT_PLAIN = (
    AS_MEASURED.replace("CHANGED;", BESIDE)
    + """
  const outputs = [await visit(), await visit()];
  const { queues } = JSON.parse(await (await (await fileOf(".json")).getFile()).text());
  return { outputs, queues: queues.length, isolated: crossOriginIsolated };
"""
)


def test_kept_weights_are_prepared_by_a_worker_beside_and_packed_where_they_are_kept_plain(
    lone_browser: Browser, host: Host, network: PlannedNetwork
) -> None:
    with site(ISOLATED) as address:
        page = lone_browser.new_page()
        page.goto(address)
        host.sent.clear()
        found = runner(page, host, network)(KEPT_PLAIN)
        page.close()
    assert found["isolated"]
    assert found["queues"] > 1
    assert all(close(output, network.outputs["y"]) for output in found["outputs"])
    assert host.sent.count("/kept.weights") == 2, "by the first visit, and by the test"


ALL_PLAIN = """
  const ys = [await visit()];
  const [model, y] = await opened();
  await zoo.saveGraph("mine", model);
  const { weights } = JSON.parse(await (await (await fileOf(".json")).getFile()).text());
  ys.push(y, await visit(), (await loaded()).y);
  await zoo.deleteGraph("mine");
  return { plain: weights.map(({ plain }) => plain), ys };
"""


@pytest.mark.parametrize("ranged", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_packed_weights_are_kept_plain_by_fetching_their_parts_of_the_file_again(
    lone_browser: Browser, host: Host, network: PlannedNetwork, *, ranged: bool
) -> None:
    """They are in memory no more as their author stored them. A host that sends no parts would send
    the whole file for each of them: there they stay packed once a model has met the first."""
    host.ranged = ranged
    host.sent.clear()
    host.parts.clear()
    with page_elsewhere(lone_browser) as page:
        found = runner(page, host, network)(PLAIN + ALL_PLAIN)
    assert all(close(y, network.outputs["y"]) for y in found["ys"])
    assert set(found["plain"]) == ({True} if ranged else {True, False})
    assert host.sent.count("/kept.weights") == (1 if ranged else 3)
    assert len(host.parts) == (4 if ranged else 0), (
        "of the two weights that kernels pack, twice saved"
    )


HOLDING = """
  // What reads stops at its second weight until the page has heard of it.
  const holding = `{
    const post = MessagePort.prototype.postMessage;
    let breaths = 0;
    MessagePort.prototype.postMessage = function (...told) {
      breaths += 1;
      if (breaths !== 2) return post.apply(this, told);
      const gate = new BroadcastChannel("gate");
      gate.onmessage = () => post.apply(this, told);
      gate.postMessage("held");
    };
  }`;
  const Plain = Blob;
  globalThis.Blob = class extends Plain {
    constructor(parts, options) { super([holding, ...parts], options); }
  };
  globalThis.gate = new BroadcastChannel("gate");
  const held = new Promise((resolve) => { gate.onmessage = resolve; });
  globalThis.reading = READING();
  globalThis.reading.catch(() => undefined);
  await held;
  globalThis.Blob = Plain;
"""


@pytest.mark.parametrize(
    "before",
    [
        pytest.param("", id="files"),
        pytest.param(PRIVATE, id="records", marks=pytest.mark.slow),
    ],
)
def test_a_storage_that_is_cleared_between_two_reads_costs_a_fetch_and_never_a_wrong_number(
    lone_browser: Browser, host: Host, network: PlannedNetwork, before: str
) -> None:
    right = network.outputs["y"]
    with page_elsewhere(lone_browser, before) as page:
        run = runner(page, host, network)
        session = page.context.new_cdp_session(page)
        everything = {"origin": page.url.rstrip("/"), "storageTypes": "all"}
        assert close(run("return visit();"), right)

        def cleared_while(reading: str, told: str) -> Any:
            run(HOLDING.replace("READING", reading))
            session.send("Storage.clearDataForOrigin", everything)
            return run(f"gate.postMessage('go'); return {told};")

        host.sent.clear()
        assert close(cleared_while("visit", "globalThis.reading"), right)
        assert "/kept.weights" in host.sent, "what was not read yet is gone"
        assert close(run("return visit();"), right)
        assert cleared_while("loaded", "refusal(() => globalThis.reading)").startswith("storage: ")
        assert run("return refusal(loaded);").startswith("storage: ")
        assert close(run("return visit();"), right)


SPIED = """
  let [most, held, again, last] = [0, 0, 0, null];
  const sizes = [];
  const post = Worker.prototype.postMessage;
  const watched = new WeakSet();
  Worker.prototype.postMessage = function (message, transfer) {
    if (!watched.has(this)) {
      watched.add(this);
      this.addEventListener("message", ({ data }) => {
        if (data.type !== "read") return;
        sizes.push(data.piece.length);
        last = data.piece.buffer;
        held -= 1;
      });
    }
    if (message.type === "read") {
      most = Math.max(most, ++held);
      again += message.into.buffer === last ? 1 : 0;
    }
    if (!(message.type === "read" && sizes.length >= stop)) post.call(this, message, transfer);
  };
"""


def test_saving_holds_a_mebibyte_of_the_weights_at_a_time(run: Run) -> None:
    sizes, most, again = run(f"""
      const stop = Infinity;
      {SPIED}
      const model = await zoo.model(`${{host}}/long.json`, {{ check: false }});
      await zoo.saveGraph("long", model);
      Worker.prototype.postMessage = post;
      await zoo.deleteGraph("long");
      await model.dispose();
      return [sizes, most, again];
    """)
    assert most == 1
    assert again == len(sizes) - 1, "all travel in one buffer"
    assert max(sizes) == 1 << 20
    assert sum(sizes) >= 768 * 768 * 4
    assert len(sizes) == 3


def test_a_worker_that_knows_of_storage_writes_its_weights_itself(run: Run) -> None:
    sizes, keys = run(f"""
      const stop = Infinity;
      {SPIED}
      const model = await zoo.model(`${{host}}/long.json`, {{ check: false, save: "long" }});
      await model.saved;
      Worker.prototype.postMessage = post;
      const keys = await zoo.listGraphs();
      await zoo.deleteGraph("long");
      await model.dispose();
      return [sizes, keys];
    """)
    assert keys == ["long"]
    assert sizes == [], "nothing of them is told to the page"


BEFORE_THE_FIRST_OUTPUT = """
  let asked = 0;
  navigator.storage.getDirectory = () => {
    asked += 1;
    return StorageManager.prototype.getDirectory.call(navigator.storage);
  };
  const model = await zoo.model(`${host}/kept.json`, { save: "later", check: false });
  await model.complete();
  await new Promise((done) => setTimeout(done, 500));
  const before = asked;
  await model.run(feeds);
  await model.saved;
  delete navigator.storage.getDirectory;
  await model.dispose();
  const keys = await zoo.listGraphs();
  await zoo.deleteGraph("later");
  return [before, asked > 0, keys];
"""


def test_nothing_of_saving_stands_before_the_first_output(run: Run) -> None:
    """Also where all weights are there before a run is asked for."""
    assert run(BEFORE_THE_FIRST_OUTPUT) == [0, True, ["later"]]


SAVED_ANEW = """
  const model = await zoo.model(`${host}/long.json`, { check: false });
  await zoo.saveGraph("long", model);
  await model.dispose();
  const kept = (await names()).length;
  const keys = await zoo.listGraphs();
  await zoo.deleteGraph("long");
  return [kept, keys];
"""


def test_a_tab_that_ends_while_it_writes_leaves_no_graph(
    lone_browser: Browser, page: Page, host: Host, network: PlannedNetwork
) -> None:
    context = lone_browser.new_context()
    one, other = context.new_page(), context.new_page()
    for each in (one, other):
        each.goto(page.url)
    run = runner(one, host, network)
    begun = f"""
      const stop = 1;
      {SPIED}
      const model = await zoo.model(`${{host}}/long.json`, {{ check: false }});
      zoo.saveGraph("long", model);
      while (sizes.length < 1) await new Promise((resolve) => setTimeout(resolve, 5));
    """
    runner(other, host, network)(begun)
    other.close()
    assert run("return zoo.listGraphs();") == []
    assert run(SAVED_ANEW) == [2, ["long"]], (
        "its description and its weights, and nothing of before"
    )
    context.close()


STALLED = """
  // The worker that writes weights stands still with the second piece.
  const stall = `{
    if (globalThis.FileSystemSyncAccessHandle) {
      const write = FileSystemSyncAccessHandle.prototype.write;
      let written = 0;
      FileSystemSyncAccessHandle.prototype.write = function (...given) {
        written += given[0].length === 1 << 20;
        if (written === 2) {
          new BroadcastChannel("stalled").postMessage(null);
          const memory = new WebAssembly.Memory({ initial: 1, maximum: 1, shared: true });
          Atomics.wait(new Int32Array(memory.buffer), 0, 0);
        }
        return write.apply(this, given);
      };
    }
  }`;
  globalThis.Blob = class extends Blob {
    constructor(parts, options) { super([stall, ...parts], options); }
  };
"""


def test_a_tab_that_ends_while_its_worker_writes_leaves_no_graph(
    lone_browser: Browser, page: Page, host: Host, network: PlannedNetwork
) -> None:
    context = lone_browser.new_context()
    one, other = context.new_page(), context.new_page()
    other.add_init_script(STALLED)
    for each in (one, other):
        each.goto(page.url)
    run = runner(one, host, network)
    begun = """
      const channel = new BroadcastChannel("stalled");
      const stalled = new Promise((resolve) => { channel.onmessage = resolve; });
      await zoo.model(`${host}/long.json`, { check: false, save: "long" });
      await stalled;
    """
    runner(other, host, network)(begun)
    assert len(run("return names();")) == 1, "weights, which nothing describes yet"
    other.close()
    assert run("return zoo.listGraphs();") == []
    assert run(SAVED_ANEW) == [2, ["long"]], "its description and its weights"
    context.close()


def test_a_private_window_keeps_graphs_in_records(
    lone_browser: Browser, host: Host, network: PlannedNetwork
) -> None:
    right = network.outputs["y"]
    with page_elsewhere(lone_browser, PRIVATE) as page:
        run = runner(page, host, network)
        assert close(run("return visit();"), right)
        host.sent.clear()
        found, keys = run("return [await loaded(), await zoo.listGraphs()];")
        assert close(found["y"], right)
        assert keys == ["mine"]
        assert close(run("return visit();"), right)
        assert "/kept.weights" not in host.sent
        for damage in ("record changed", "records cleared"):
            refused = run(f"await damages['{damage}'](); return refusal(loaded);")
            assert refused.startswith("storage: "), damage
            assert run("return zoo.listGraphs();") == []
            assert close(run("return visit();"), right)


def test_a_private_window_without_room_keeps_no_record(
    lone_browser: Browser, host: Host, network: PlannedNetwork
) -> None:
    with site({}) as address:
        page = lone_browser.new_page()
        page.add_init_script(PRIVATE)
        page.goto(address)
        session = page.context.new_cdp_session(page)
        quota = {"origin": address, "quotaSize": 1_000}
        session.send("Storage.overrideQuotaForOrigin", quota)
        body = """
          const [model, y] = await opened();
          const refused = await refusal(() => zoo.saveGraph("mine", model));
          await refusal(() => model.saved);
          let left;
          await records((pieces) => {
            pieces.count().onsuccess = ({ target }) => { left = target.result; };
          });
          return [y, refused, await zoo.listGraphs(), left];
        """
        y, refused, keys, left = runner(page, host, network)(body)
        page.close()
    assert close(y, network.outputs["y"])
    assert refused.startswith("storage: Graph mine cannot be kept: ")
    assert keys == []
    assert left == 0, "no part of it is left"


def test_a_model_runs_where_the_storage_is_full_or_denied(
    lone_browser: Browser, host: Host, network: PlannedNetwork
) -> None:
    right = network.outputs["y"]
    body = """
      const [model, y] = await opened();
      const refused = await refusal(() => zoo.saveGraph("mine", model));
      await refusal(() => model.saved);
      return [y, refused, await zoo.listGraphs()];
    """
    with site({}) as address:
        page = lone_browser.new_page()
        page.goto(address)
        quota = {"origin": address, "quotaSize": 1_000}
        session = page.context.new_cdp_session(page)
        session.send("Storage.overrideQuotaForOrigin", quota)
        run = runner(page, host, network)
        y, refused, keys = run(body)
        assert close(y, right)
        assert refused.startswith("storage: Graph mine cannot be kept: ")
        assert keys == []
        assert run("return names();") == [], "no part of it is left"
        session.send("Storage.overrideQuotaForOrigin", {"origin": address})
        assert close(run("return visit();"), right)
        everything = {"origin": address, "storageTypes": "all"}
        session.send("Storage.clearDataForOrigin", everything)
        assert run("return refusal(loaded);").startswith("storage: "), "the browser evicted it"
        assert close(run("return visit();"), right)
        page.set_content("<iframe sandbox='allow-scripts' src='about:blank'></iframe>")
        (frame,) = page.frames[1:]
        feeds = lists(network.feeds)
        y, refused, keys = frame.evaluate(script(VISIT + body), [host.url, feeds])
        assert close(y, right)
        assert refused.startswith("storage: Graph mine cannot be kept: ")
        assert keys == []
        page.close()
