"""Whole models in a page of another origin than the host that serves them."""

from collections.abc import Callable, Iterator
from functools import partial
from json import dumps, loads
from pathlib import Path
from threading import Event
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Browser, Page

from fixtures.model_site import described, write_model
from kernelzoo.domain.artifact import Artifact
from kernelzoo.domain.dtype import DType
from kernelzoo.domain.target import TargetKind
from kernelzoo.domain.workload import Workload
from services.tuner.schedules.registry import lite_space
from tests.browser.model_host import (
    PAGES,
    Host,
    close,
    evaluated,
    hosting,
    is_right,
    lists,
    page_elsewhere,
)
from tests.browser.model_plans import (
    chosen,
    chosen_in_javascript,
    deep,
    few_bits,
    of_bytes,
    small,
    typed,
    widths,
)
from tests.browser.sites import ISOLATED, site
from tests.examples import one_in
from tests.plans import PlannedNetwork
from workers.fleet.browsers import BrowserKind, Launch
from workers.fleet.chromium import opened_profile
from workers.fleet.firefox import Firefox, start_firefox
from workers.fleet.installed import MISSING
from workers.fleet.webkit import WebKit, start_webkit

STARTED: dict[BrowserKind, Callable[[Launch], Firefox | WebKit]] = {
    BrowserKind.FIREFOX: start_firefox,
    BrowserKind.WEBKIT: start_webkit,
}

LOGIN = "<!doctype html><title>Log in to this network</title>"
LOGIN_HEADERS = {"Content-Type": "text/html", "Access-Control-Allow-Origin": "*"}


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    made = Host(tmp_path_factory.mktemp("models"))
    for each in (small(), deep()):
        made.write(each)
    with hosting(made):
        yield made


@pytest.fixture(scope="module")
def page(lone_browser: Browser) -> Iterator[Page]:
    with page_elsewhere(lone_browser) as opened:
        yield opened


def _served_in_javascript(folder: Path, key: str) -> dict[str, Any]:
    """Returns what a gateway says of the kernel, and writes its file."""
    (only,) = lite_space(Workload.parse(key), TargetKind.JAVASCRIPT)
    made: dict[str, Artifact] = {}
    kernel = described(only, None, made)
    for name, artifact in made.items():
        (folder / "v1" / "artifacts" / f"{name}.javascript").write_bytes(artifact.body)
    unknown = dict.fromkeys(("state", "version", "evidence", "timing", "grounds"))
    return {"tolerance": 1e-4, "level": "default", "kernel": kernel, "fallback": kernel, **unknown}


def _write_kernel(folder: Path, key: str, served: dict[str, Any], device_class: str) -> None:
    """Writes what a gateway answers for a workload of constant weights, and a bundle that has
    it."""
    workload = key.removesuffix(":constant=b")
    kernels = {"wasm": None, "webgpu": None, "javascript": served}
    advice = {"target": "javascript", "basis": "none"}
    entry = {"workload": key, "flops": Workload.parse(key).flops, **kernels, "advice": advice}
    manifest = {
        "manifest": 1,
        "set": workload,
        "device_classes": [device_class],
        "entries": [entry],
        "missing": [],
        "issued_at": "2026-01-01T00:00:00Z",
        "serial": 1,
        "signatures": [],
    }
    path = Path("v1") / "zoo" / workload / device_class
    (folder / path).parent.mkdir(parents=True, exist_ok=True)
    (folder / path).write_text(dumps(manifest))
    listed = [{"device_classes": [device_class], "url": f"/{path}"}]
    index = {"bundle": 1, "set": workload, "manifests": listed}
    (folder / "bundle.json").write_text(dumps(index))


@pytest.mark.parametrize(
    ("flags", "refused"),
    [((), "CompileError: "), (("--js-flags=--jitless",), "ReferenceError: WebAssembly is")],
    ids=["by its policy", "by its browser"],
)
def test_models_and_kernels_run_in_javascript_where_the_page_may_not_run_webassembly(
    lone_browser: Browser, host: Host, tmp_path: Path, flags: tuple[str, ...], refused: str
) -> None:
    """Golden outputs are compared, and a policy allows no code but the SDK's. A browser in Lockdown
    Mode has no WebAssembly at all, and interprets JavaScript."""
    network = small("plain")
    kernels = {each.key: chosen_in_javascript(each) for each in network.workloads.values()}
    plain = "0000000000000000:r0-0:javascript"
    answer = write_model(host.folder, plain, network.plan, network.files, kernels)
    key = "matmul:f32:m9k33n20:constant=b"
    of_bytes = _served_in_javascript(host.folder, "matmul_i8:f32:m9k33n21")
    _write_kernel(host.folder, "matmul_i8:f32:m9k33n21", of_bytes, plain)
    of_halves = loads(dumps(of_bytes).replace('"i8"', '"f16"').replace("/v1/", "/none/"))
    _write_kernel(host.folder, "matmul:f16:m8k8n8", of_halves, plain)
    _write_kernel(host.folder, key, loads(answer.read_text())["kernels"][key], plain)
    random = np.random.default_rng(3)
    a, b = (random.standard_normal(shape, dtype=np.float32) for shape in ((9, 33), (33, 20)))
    small_weights = random.integers(-127, 128, (33, 21)).astype(np.int8)
    policy = f"script-src {host.url}; worker-src blob:; connect-src {host.url}"
    feeds = lists({**network.feeds, "a": a, "b": b, "bytes": small_weights})
    with (
        site({"Content-Security-Policy": policy}) as address,
        opened_profile(lone_browser.browser_type, str(tmp_path), *flags) as context,
    ):
        page = context.pages[0]
        page.goto(address)
        made = evaluated(page, host, "models", "inJavascript", feeds)
    assert is_right(made["found"], network)
    assert made["target"] == "javascript"
    assert made["targetReason"].startswith("This page may not run WebAssembly: it is off")
    file, module = made["others"]
    assert file.startswith("compile: This page may not run WebAssembly"), "this is of WebAssembly"
    assert module.startswith(refused)
    for product in made["products"]:
        assert (product["backend"], product["ok"]) == ("javascript", True)
        assert product["backendReason"] == made["targetReason"]
        assert close(product["first"], a @ b)
        assert not any(product["zero"])
        assert close(product["twice"], a @ (2 * b))
        assert "Await runAsync()" in product["refused"]
    assert close(made["bytes"], a @ small_weights)
    assert made["halves"] == (
        "manifest: matmul:f16:m8k8n8 has b of f16, which no kernel in JavaScript takes."
    ), "before it is fetched"


def test_a_model_computes_what_numpy_does(page: Page, host: Host) -> None:
    network = small()
    found = evaluated(page, host, "models", "run", lists(network.feeds))
    assert found["isolated"] is False
    assert is_right(found["first"], network)
    assert is_right(found["second"], network), "plain numbers do as well as typed arrays"
    assert found["types"] == ["Float32Array", "BigInt64Array", "Float32Array"]
    assert found["inputs"][0] == {"name": "ids", "dtype": "int64", "shape": [9]}
    calls = found["plan"]["calls"]
    assert [call["label"] for call in calls] == ["embed", "up", "down", "residual"]
    assert all(call["measuredMs"] >= 0 for call in calls)
    phases = {each["phase"]: each for each in found["phases"]}
    assert list(phases) == ["plan", "kernels", "weights", "check"]
    assert all(each["loaded"] == each["total"] for each in phases.values())
    assert "matmul+bias+gelu:f32:m9k13n33:constant=b" in found["table"]
    assert [event["name"] for event in found["events"]] == [call["label"] for call in calls]
    assert "run: small was disposed of" in found["after"]


def test_integers_and_booleans_go_in_and_come_out_as_a_model_has_them(
    page: Page, host: Host, tmp_path: Path
) -> None:
    network = typed(tmp_path)
    host.write(network)
    found = evaluated(page, host, "models", "typed", lists(network.feeds))
    assert found["types"] == ["Int32Array", "Uint8Array", "Uint8Array"]
    for run in ("first", "second"):
        assert found[run] == {
            "negated": [2**31 - 1, 1, 0, -7, -(2**31) + 1],
            "unlike": [0, 1, 0, 1, 0],
            "most": [1, 1, 2, 128, 255],
        }, run
    byte, flag = found["refused"]
    assert "Input byte (uint8) takes whole numbers from 0 to 255; entry 4 is 256" in byte
    assert "Input flag (bool) takes whole numbers from 0 to 1; entry 2 is 2" in flag


def test_what_does_not_fit_is_refused_with_what_to_do(page: Page, host: Host) -> None:
    found = evaluated(page, host, "models", "refuse", lists(small().feeds))
    wanted = [
        "run: Input x is missing: give 9×20 entries of float32",
        "run: The model has no input z; its inputs are ids, x",
        "run: Input ids takes 9 entries of int64 (9), not 8: pad or cut it",
        "run: Input x has the shape 9×20, not 20×9",
        "run: Input ids (int64) takes whole numbers",
        "run: Input ids (int64) takes whole numbers from -2147483648",
        "run: Input x takes float32: give a Float32Array",
        "run: sinal is not known to model.run; signal may be meant",
        *["run: into is to be an object of outputs of an earlier run"] * 5,
        "run: run is not known to model.profile; runs may be meant",
        "manifest: ",
        "memory: small takes",
    ]
    for sentence, start in zip(found, wanted, strict=True):
        assert sentence.startswith(start)


@pytest.mark.parametrize("isolated", [True, False], ids=["isolated", "not isolated"])
def test_a_short_model_runs_on_the_pages_own_thread_and_lets_the_page_have_its_turn(
    lone_browser: Browser, page: Page, host: Host, isolated: bool
) -> None:
    network = small()
    if isolated:
        with site(ISOLATED) as address:
            own = lone_browser.new_page()
            own.goto(address)
            found = evaluated(own, host, "models", "short", lists(network.feeds))
            own.close()
    else:
        found = evaluated(page, host, "models", "short", lists(network.feeds))
    for y in (found["inWorker"], *found["here"]):
        assert close(y, network.outputs["y"])
    assert found["sent"] == 0
    assert found["turns"] > 0, "while it runs without a rest"
    assert found["stopped"] == "Error: enough"
    assert found["misfit"].startswith("run: Input x takes")
    assert found["timed"] == 4
    for told in (found["waiting"], found["after"]):
        assert told.startswith("run: small was disposed of")


def test_a_run_is_stopped_between_kernels_while_another_waits(page: Page, host: Host) -> None:
    network, other = deep(), small()
    feeds = lists({"x": network.feeds["x"], "ids": other.feeds["ids"], "rows": other.feeds["x"]})
    found = evaluated(page, host, "models", "stop", feeds)
    assert found["loading"] == "Error: gone"
    assert found["reason"] == "Error: enough"
    assert found["stopMs"] < found["wholeMs"] / 2, "far from its end"
    assert close(found["y"], network.outputs["y"])
    assert close(found["again"], network.outputs["y"]), "the next run is not touched"
    assert close(found["beside"], other.outputs["y"]), "a second model of the page"


def test_threads_share_the_calls_of_a_model_in_an_isolated_page(
    lone_browser: Browser, host: Host
) -> None:
    network = deep()
    with site(ISOLATED) as address:
        page = lone_browser.new_page()
        page.goto(address)
        found = evaluated(page, host, "models", "deep", lists(network.feeds))
        page.close()
    assert found["isolated"] is True
    assert (found["threads"], found["singleThreadReason"]) == (2, None)
    assert close(found["y"], network.outputs["y"])
    assert found["reason"] == "Error: enough"
    assert set(found["used"]) <= {1, 2}


@pytest.mark.parametrize("kind", ["wrong", "trapping"])
def test_a_wrong_kernel_gives_way_to_its_default_and_the_host_hears_of_it(
    page: Page, host: Host, kind: str
) -> None:
    """It subtracts instead of adding, or ends in an instruction that traps."""
    break_it = _trapping if kind == "trapping" else _subtracting
    network = small(kind)
    host.write(network, **{"add:f32:n180": chosen(Workload.parse("add:f32:n180"), break_it)})
    host.told.clear()
    found = evaluated(page, host, "models", "wrong", {"kind": kind, "inputs": lists(network.feeds)})
    assert close(found["y"], network.outputs["y"])
    assert [call["label"] for call in found["fell"]] == ["residual"]
    assert [(each["workload"], each["stage"]) for each in host.told] == [
        ("add:f32:n180", "compare" if kind == "wrong" else "run")
    ]


def test_a_wrong_kernel_is_found_when_the_page_wants_no_run(page: Page, host: Host) -> None:
    network = small("late")
    host.write(network, **{"add:f32:n180": chosen(Workload.parse("add:f32:n180"), _subtracting)})
    host.told.clear()
    found = evaluated(page, host, "models", "late", lists(network.feeds))
    assert not close(found["first"], network.outputs["y"])
    assert found["fell"] == ["add:f32:n180"]
    assert close(found["second"], network.outputs["y"])
    assert [each["stage"] for each in host.told] == ["compare"]


def test_a_model_in_a_file_runs_before_its_device_is_probed(
    lone_browser: Browser, host: Host
) -> None:
    network = small()
    with site({}) as address:
        page = lone_browser.new_page()
        page.goto(address)
        answer = evaluated(page, host, "models", "unprobed", lists(network.feeds))
        page.close()
    assert close(answer["y"], network.outputs["y"])
    assert any("runtime-" in name for name in answer["loaded"])
    assert not any("probe-" in name for name in answer["loaded"])
    assert not any("probe" in note for note in answer["notes"])
    assert answer["class"] is None


CODE_CATEGORIES = ["devtools.timeline", "disabled-by-default-devtools.timeline"]
CACHE_HIT = "v8.wasm.moduleCacheHit"
KEPT_MS = (3_000, 30_000, 120_000)
"""V8 writes a module's optimised code once it has optimised nothing of it for two seconds, which
takes long on a busy machine."""
SEVERAL_KEPT_MS = (60_000, 600_000)


def traced_visit(
    lone_browser: Browser,
    profile: Path,
    address: str,
    host: Host,
    network: PlannedNetwork,
    rest_ms: int,
) -> set[str]:
    """Returns what Chromium traced of WebAssembly's code while a page ran a model, and rested."""
    traced: list[dict[str, Any]] = []
    with opened_profile(lone_browser.browser_type, str(profile)) as context:
        page = context.pages[0]
        page.goto(address)
        tracer = context.new_cdp_session(page)
        tracer.on("Tracing.dataCollected", lambda told: traced.extend(told["value"]))
        with_categories = {"includedCategories": CODE_CATEGORIES}
        tracer.send("Tracing.start", {"traceConfig": with_categories})
        y = evaluated(page, host, "models", "runOften", lists(network.feeds), network.plan.model)
        page.wait_for_timeout(rest_ms)
        ended: list[bool] = []
        tracer.on("Tracing.tracingComplete", lambda _: ended.append(True))
        tracer.send("Tracing.end")
        while not ended:
            page.wait_for_timeout(20)
    assert close(y, network.outputs["y"])
    return {event["name"] for event in traced}


def test_a_second_visit_starts_with_the_optimised_code_of_the_first(
    lone_browser: Browser, host: Host, tmp_path: Path
) -> None:
    """The browser is one as people have it, and the module has one kernel."""
    visits = partial(two_traced_visits, lone_browser, tmp_path, host, deep())
    first, later = visits(KEPT_MS[0])
    assert CACHE_HIT not in first
    for rest_ms in KEPT_MS[1:]:
        if CACHE_HIT not in later:
            _, later = visits(rest_ms)
    assert CACHE_HIT in later


@pytest.mark.slow
def test_a_later_visit_starts_with_the_optimised_code_of_several_kernels(
    lone_browser: Browser, host: Host, tmp_path: Path
) -> None:
    """V8 optimises functions of a module one after another, and takes the milliseconds between the
    first and the last for seconds, and waits for so long: for ResNet-50's some seven minutes, and
    longer on a busy machine."""
    several = widths()
    host.write(several)
    later: set[str] = set()
    for rest_ms in SEVERAL_KEPT_MS:
        if CACHE_HIT not in later:
            _, later = two_traced_visits(lone_browser, tmp_path, host, several, rest_ms)
    assert CACHE_HIT in later


def two_traced_visits(
    lone_browser: Browser, profile: Path, host: Host, network: PlannedNetwork, rest_ms: int
) -> tuple[set[str], set[str]]:
    """The first rests for so long. Files are kept in between."""
    host.cache_control = "public, max-age=31536000, immutable"
    try:
        with site({}) as address:
            visit = partial(traced_visit, lone_browser, profile, address, host, network)
            return visit(rest_ms), visit(0)
    finally:
        host.cache_control = "no-store"


def test_a_run_begins_while_weights_are_on_their_way(page: Page, host: Host) -> None:
    """The host keeps the end of the file until the page, whose model is open, asks for it."""
    network = deep("slow", layers=2)
    host.write(network)
    host.held = Event()
    found = evaluated(page, host, "models", "slow", lists(network.feeds))
    host.held = None
    assert close(found["y"], network.outputs["y"])
    assert found["stopped"] == "Error: enough"


def test_weights_in_fewer_bits_become_those_of_the_golden_outputs(page: Page, host: Host) -> None:
    """The first connection breaks in their midst."""

    network = few_bits()
    assert [each.storage.axis for each in network.plan.weights if each.storage][-2:] == [0, 1]
    host.write(network)
    host.cuts = 1
    found = evaluated(page, host, "models", "fewBits", lists(network.feeds))
    assert all(close(y, network.outputs["y"]) for y in found["outputs"])
    weights = [each for each in found["seen"] if each["phase"] == "weights"]
    assert weights[-1]["loaded"] == weights[-1]["total"] == network.plan.file_bytes
    assert host.sent.count("/few.weights") == 2, "a second visit reads what is kept"


def test_a_file_of_onnxruntimes_quantiser_computes_what_onnxruntime_does(
    page: Page, host: Host, tmp_path: Path
) -> None:
    """Its weights take a byte each in the file and in memory."""
    network = of_bytes(tmp_path)
    matrices = [each for each in network.plan.weights if each.dtype is DType.I8]
    assert sum(each.bytes for each in matrices) == 2 * (4 * 32 * 32 + 2 * 32 * 64)
    host.write(network)
    found = evaluated(page, host, "models", "ofBytes", lists(network.feeds))
    (wanted,) = network.outputs.values()
    assert close(found, wanted)


@pytest.mark.parametrize("headers", [{}, ISOLATED], ids=["alone", "isolated"])
def test_weights_whose_connection_breaks_are_fetched_from_the_last_whole_chunk_on(
    lone_browser: Browser, host: Host, headers: dict[str, str]
) -> None:
    """It breaks twice: after half of the file, and after half of the rest."""
    network = deep()
    whole = network.plan.file_bytes
    host.sent.clear()
    host.parts.clear()
    host.ranged, host.cuts = True, 2
    try:
        with site(headers) as address:
            page = lone_browser.new_page()
            page.goto(address)
            found = evaluated(page, host, "models", "opened", lists(network.feeds))
            page.close()
    finally:
        host.ranged, host.cuts = False, 0
    assert found["isolated"] is (headers == ISOLATED)
    assert close(found["y"], network.outputs["y"])
    assert host.sent.count("/deep.weights") == 1
    half, quarter = whole // 2, whole // 4
    assert host.parts == [(half, half), (half + quarter, quarter)]


def test_weights_of_a_large_model_are_received_by_a_worker_that_its_page_starts(
    lone_browser: Browser, host: Host
) -> None:
    """Beside the model's, which needs not run yet; those of a small one by the model's."""
    large = deep("large", layers=2, rows=8, width=3072)
    host.write(large)
    host.sent.clear()
    few = deep()
    feeds = {each.plan.model: lists(each.feeds) for each in (few, large)}
    with site(ISOLATED) as address:
        page = lone_browser.new_page()
        page.add_init_script(path=PAGES / "starts_counted.js")
        page.goto(address)
        (few_y, one), (large_y, three) = evaluated(page, host, "models", "smallAndLarge", feeds)
        page.close()
    assert close(few_y, few.outputs["y"])
    assert close(large_y, large.outputs["y"])
    assert [one, three] == [1, 3]
    assert host.sent.count("/large.weights") == 1


def test_a_file_that_names_no_class_of_devices_is_for_wasm(page: Page, host: Host) -> None:
    """The worker that unpacks weights is chosen by the target."""
    network = few_bits()
    host.write_for("", network)
    found = evaluated(page, host, "models", "noClass", lists(network.feeds))
    assert close(found, network.outputs["y"])


def _subtracting(body: bytes) -> bytes:
    for old, new in ((b"\xfd\xe4\x01", b"\xfd\xe5\x01"), (b"\x92", b"\x93")):
        body = body.replace(old, new)
    return body


def _trapping(body: bytes) -> bytes:
    """The module with `unreachable` for its code, which is the last section."""
    at = 8
    while body[at] != 10:
        at += 2 + body[at + 1]
    return body[:at] + b"\x0a\5\1\3\0\0\x0b"


@pytest.mark.parametrize("what", ["weights", "wasm", "golden"])
def test_a_file_with_one_byte_changed_is_refused(page: Page, host: Host, what: str) -> None:
    network = small("changed")
    host.write(network)
    file = host.folder / f"changed.{what}"
    body = file.read_bytes()
    at = len(body) - 5
    file.write_bytes(body[:at] + bytes([body[at] ^ 1]) + body[at + 1 :])
    found = evaluated(page, host, "models", "openChanged")
    assert found.startswith("artifact: ")
    assert "SHA-256" in found


@pytest.mark.parametrize(
    ("answered", "told"),
    [
        ("changed.json", "Does the network want a login first?"),
        (
            "changed.weights",
            "a page of HTML: there is no such file, or the network wants a login first.",
        ),
        ("changed.wasm", "A proxy changed it or sent a page."),
        ("changed.golden", "A proxy changed it or sent a page."),
    ],
)
def test_a_network_that_answers_with_its_login_page_is_told_of_in_a_sentence(
    page: Page, host: Host, answered: str, told: str
) -> None:
    host.write(small("changed"))
    page.route(f"**/{answered}", lambda route: route.fulfill(body=LOGIN, headers=LOGIN_HEADERS))
    found = evaluated(page, host, "models", "openChanged")
    page.unroute(f"**/{answered}")
    assert answered in found
    assert told in found


@pytest.mark.parametrize("kind", one_in(2, [BrowserKind.FIREFOX, BrowserKind.WEBKIT]))
def test_another_engine_computes_the_same(host: Host, tmp_path: Path, kind: BrowserKind) -> None:
    if (package := MISSING[kind]()) is not None:
        pytest.skip(f"{kind} is not here; install it with `apt-get install {package}`")
    network = small()
    opened = STARTED[kind](Launch(profile=tmp_path, gpu=None, sandbox=False))
    with site({}) as address:
        try:
            opened.connect()
            opened.goto(address)
            found = evaluated(opened, host, "models", "run", lists(network.feeds))
        finally:
            opened.kill()
    assert is_right(found["first"], network)


@pytest.mark.parametrize("shares_memory", [False, True])
def test_webkit_that_isolates_a_page_runs_models_with_shared_memory_and_without(
    host: Host, tmp_path: Path, shares_memory: bool
) -> None:
    if (package := MISSING[BrowserKind.WEBKIT]()) is not None:
        pytest.skip(f"WebKitGTK is not here; install it with `apt-get install {package}`")
    network = small()
    opened = WebKit(tmp_path, shares_memory)
    with site(ISOLATED) as address:
        try:
            opened.connect()
            opened.goto(address)
            found = evaluated(opened, host, "models", "isolatedRun", lists(network.feeds))
        finally:
            opened.kill()
    assert found["isolated"]
    assert is_right(found["first"], network)
    if shares_memory:
        assert (found["threads"], found["singleThreadReason"]) == (2, None)
    else:
        assert found["threads"] == 1
        assert "lets no threads share memory" in found["singleThreadReason"]
