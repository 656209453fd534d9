"""Models that a device keeps by keys of the page, and what may befall them."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from tests.browser.model_host import PAGES, Host, close, evaluated, hosting, lists, page_elsewhere
from tests.browser.model_plans import deep, small
from tests.browser.sites import ISOLATED, site
from tests.plans import PlannedNetwork

Run = Callable[[str], Any]
"""Evaluates the body of a function in a page."""


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


PRIVATE = (PAGES / "private.js").read_text()
BODY = """async ([host, feeds]) => {
  const { visitor } = await import(`${host}/pages/graphs.js`);
  const { zoo, names, damages, opened, loaded, visit, refusal } = await visitor(feeds);
  %s
}"""


def runner(page: Page, host: Host, network: PlannedNetwork) -> Run:
    feeds = lists(network.feeds)
    return lambda body: page.evaluate(BODY % body, [host.url, feeds])


@pytest.fixture
def run(page: Page, host: Host, network: PlannedNetwork) -> Run:
    return runner(page, host, network)


def test_a_graph_is_opened_by_its_key_without_the_network(
    page: Page, host: Host, run: Run, network: PlannedNetwork
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
        y, keys, refused = evaluated(page, host, "graphs", "keptByAnother", lists(network.feeds))
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


def test_kept_weights_are_prepared_by_a_worker_beside_and_packed_where_they_are_kept_plain(
    lone_browser: Browser, host: Host, network: PlannedNetwork
) -> None:
    with site(ISOLATED) as address:
        page = lone_browser.new_page()
        page.goto(address)
        host.sent.clear()
        found = evaluated(page, host, "graphs", "keptPlain", lists(network.feeds))
        page.close()
    assert found["isolated"]
    assert found["queues"] > 1
    assert all(close(output, network.outputs["y"]) for output in found["outputs"])
    assert host.sent.count("/kept.weights") == 2, "by the first visit, and by the test"


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
        found = evaluated(page, host, "graphs", "allPlain", lists(network.feeds))
    assert all(close(y, network.outputs["y"]) for y in found["ys"])
    assert set(found["plain"]) == ({True} if ranged else {True, False})
    assert host.sent.count("/kept.weights") == (1 if ranged else 3)
    assert len(host.parts) == (4 if ranged else 0), (
        "of the two weights that kernels pack, twice saved"
    )


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

        def cleared_while(reading: str, *, refused: bool) -> Any:
            evaluated(page, host, "graphs", "holding", lists(network.feeds), reading)
            session.send("Storage.clearDataForOrigin", everything)
            return evaluated(page, host, "graphs", "released", refused)

        host.sent.clear()
        assert close(cleared_while("visit", refused=False), right)
        assert "/kept.weights" in host.sent, "what was not read yet is gone"
        assert close(run("return visit();"), right)
        assert cleared_while("loaded", refused=True).startswith("storage: ")
        assert run("return refusal(loaded);").startswith("storage: ")
        assert close(run("return visit();"), right)


def test_saving_holds_a_mebibyte_of_the_weights_at_a_time(
    page: Page, host: Host, network: PlannedNetwork
) -> None:
    sizes, most, again = evaluated(page, host, "graphs", "saveLong", lists(network.feeds))
    assert most == 1
    assert again == len(sizes) - 1, "all travel in one buffer"
    assert max(sizes) == 1 << 20
    assert sum(sizes) >= 768 * 768 * 4
    assert len(sizes) == 3


def test_a_worker_that_knows_of_storage_writes_its_weights_itself(
    page: Page, host: Host, network: PlannedNetwork
) -> None:
    sizes, keys = evaluated(page, host, "graphs", "openSavedLong", lists(network.feeds))
    assert keys == ["long"]
    assert sizes == [], "nothing of them is told to the page"


def test_nothing_of_saving_stands_before_the_first_output(
    page: Page, host: Host, network: PlannedNetwork
) -> None:
    """Also where all weights are there before a run is asked for."""
    found = evaluated(page, host, "graphs", "beforeTheFirstOutput", lists(network.feeds))
    assert found == [0, True, ["later"]]


def test_a_tab_that_ends_while_it_writes_leaves_no_graph(
    lone_browser: Browser, page: Page, host: Host, network: PlannedNetwork
) -> None:
    context = lone_browser.new_context()
    one, other = context.new_page(), context.new_page()
    for each in (one, other):
        each.goto(page.url)
    run = runner(one, host, network)
    evaluated(other, host, "graphs", "beginToSave", lists(network.feeds))
    other.close()
    assert run("return zoo.listGraphs();") == []
    assert evaluated(one, host, "graphs", "savedAnew", lists(network.feeds)) == [2, ["long"]], (
        "its description and its weights, and nothing of before"
    )
    context.close()


def test_a_tab_that_ends_while_its_worker_writes_leaves_no_graph(
    lone_browser: Browser, page: Page, host: Host, network: PlannedNetwork
) -> None:
    context = lone_browser.new_context()
    one, other = context.new_page(), context.new_page()
    other.add_init_script(path=PAGES / "stalled.js")
    for each in (one, other):
        each.goto(page.url)
    run = runner(one, host, network)
    evaluated(other, host, "graphs", "beginToWrite", lists(network.feeds))
    assert len(run("return names();")) == 1, "weights, which nothing describes yet"
    other.close()
    assert run("return zoo.listGraphs();") == []
    assert evaluated(one, host, "graphs", "savedAnew", lists(network.feeds)) == [2, ["long"]], (
        "its description and its weights"
    )
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
        feeds = lists(network.feeds)
        y, refused, keys, left = evaluated(page, host, "graphs", "refusedRecords", feeds)
        page.close()
    assert close(y, network.outputs["y"])
    assert refused.startswith("storage: Graph mine cannot be kept: ")
    assert keys == []
    assert left == 0, "no part of it is left"


def test_a_model_runs_where_the_storage_is_full_or_denied(
    lone_browser: Browser, host: Host, network: PlannedNetwork
) -> None:
    right = network.outputs["y"]
    feeds = lists(network.feeds)
    with site({}) as address:
        page = lone_browser.new_page()
        page.goto(address)
        quota = {"origin": address, "quotaSize": 1_000}
        session = page.context.new_cdp_session(page)
        session.send("Storage.overrideQuotaForOrigin", quota)
        run = runner(page, host, network)
        y, refused, keys = evaluated(page, host, "graphs", "refusedGraph", feeds)
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
        y, refused, keys = evaluated(frame, host, "graphs", "refusedGraph", feeds)
        assert close(y, right)
        assert refused.startswith("storage: Graph mine cannot be kept: ")
        assert keys == []
        page.close()
