"""Whole models on WebGPU, on a software adapter, and on WebAssembly where that fails."""

from collections.abc import Iterator
from dataclasses import replace
from json import dumps, loads
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Browser, Page

from fixtures.model_site import write_model
from kernelzoo.domain.candidate import Candidate
from kernelzoo.domain.gpu import gpu_model
from kernelzoo.domain.target import TargetKind
from kernelzoo.domain.workload import MAX_MEASURED_BYTES, Workload
from services.tuner.compile import compile_candidate
from services.tuner.graph.evaluate import evaluate
from services.tuner.graph.golden import seeded_feeds
from services.tuner.schedules.registry import lite_space
from tests.browser.candidate_queue import Queue, QueueHandler
from tests.browser.model_host import (
    CLASS,
    COUNT,
    GPU_CLASS,
    LOSE,
    PAGES,
    PROBED,
    Host,
    close,
    evaluated,
    hosting,
    is_right,
    lists,
    page_elsewhere,
)
from tests.browser.model_plans import (
    attentive,
    chosen,
    chosen_on_gpu,
    deep,
    faint,
    in_both_precisions,
    small,
    wide,
)
from tests.browser.sites import site
from tests.plans import PlannedNetwork
from tests.unit.graph.test_fuse import attention_in_vectors

TUNED = deep("tuned", layers=2, rows=64, width=64)
KEY = TUNED.plan.kernels[0]
HALF = attentive()
SPACE = [
    each
    for each in lite_space(
        Workload.parse(KEY), TargetKind.WEBGPU, gpu_model("google", "swiftshader")
    )
    if dict(each.config)["cache"] == "none"
]
TIMES = 10
"""The kernel of `TUNED` computes everything so often: others are faster, whatever else runs."""
RARE = 123.0
SPINS = 20_000_000


class GpuHandler(QueueHandler):
    """A static host that answers as a gateway does: a document for each target."""

    def translate_path(self, path: str) -> str:
        asked = path.replace("%3A", ":").partition("?")[0].split("/")
        if asked[1:3] == ["v1", "models"]:
            target = "webgpu" if ":webgpu" in asked[4] else "wasm"
            return str(self.host.folder / target / f"{asked[3]}.json")
        return super().translate_path(path)


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Queue]:
    made = Queue(tmp_path_factory.mktemp("models"))
    quiet = in_both_precisions(faint(tmp_path_factory.mktemp("faint")), "faint")
    for both in ((small(), small()), (TUNED, TUNED), HALF, quiet):
        _add(made, *both)
    _slow_down(made.folder / "webgpu" / f"{TUNED.plan.model}.json")
    for target in ("wasm", "webgpu"):
        for network in (HALF[0], quiet[0]):
            _fetch_apart(made.folder / target, network.plan.model)
    with hosting(made, GpuHandler):
        yield made


def _add(host: Queue, on_wasm: PlannedNetwork, on_gpu: PlannedNetwork) -> None:
    targets = (on_wasm, "wasm", chosen, CLASS), (on_gpu, "webgpu", chosen_on_gpu, GPU_CLASS)
    for network, target, pick, of in targets:
        folder = host.folder / target
        kernels = {each.key: pick(each) for each in network.workloads.values()}
        write_model(folder, of, network.plan, network.files, kernels)
        for file in folder.rglob("*.*"):
            served = host.folder / file.relative_to(folder)
            served.parent.mkdir(parents=True, exist_ok=True)
            served.write_bytes(file.read_bytes())


def _slow_down(document: Path) -> None:
    answer = loads(document.read_text())
    answer["kernels"][KEY]["kernel"]["dispatches"] *= TIMES
    document.write_text(dumps(answer))


def _fetch_apart(folder: Path, model: str) -> None:
    """Its weights and golden outputs come from the folder of its target."""
    document = folder / f"{model}.json"
    answer = loads(document.read_text())
    for file in ("weights", "golden"):
        answer[file]["url"] = f"/{folder.name}{answer[file]['url']}"
    document.write_text(dumps(answer))


@pytest.fixture(scope="module")
def page(gpu_browser: Browser) -> Iterator[Page]:
    with page_elsewhere(gpu_browser, COUNT) as opened:
        yield opened


def test_a_model_on_the_gpu_computes_what_numpy_does(page: Page, host: Host) -> None:
    """Also in runs that overlap, each with inputs of its own. What never changes is made when the
    model is loaded, and once more without the uniform of slices when a run was short: a run is one
    pass in one submission."""
    network = small()
    found = evaluated(page, host, "models_gpu", "run", lists(network.feeds))
    first, second, *_ = runs = found["listed"]
    assert is_right(first, network)
    assert not close(second["y"], network.outputs["y"])
    assert [each["y"] == first["y"] for each in runs] == [True, False, True, False, True, True]
    assert set(found["taken"]) == set(first), "the arrays that were given are empty"
    plan = found["plan"]
    assert (plan["target"], plan["targetReason"]) == ("webgpu", None)
    assert plan["deviceClass"] == GPU_CLASS
    assert found["reason"] == "Error: enough"
    once = {"submissions": 1, "passes": 1}
    assert found["ofRun"] == dict.fromkeys(found["ofRun"], 0) | once
    assert found["loaded"]["bindGroups"] == 3 * len(found["plan"]["calls"])
    assert found["loaded"]["staging"] == 3, "a ring that overlapping runs take in turn"
    assert found["loaded"]["atOnce"] > 1, "several pipelines are compiled at a time"
    assert all(ms > 0 for ms in found["took"])
    assert plan["memoryBytes"] >= network.plan.memory.weights


@pytest.mark.parametrize(
    ("known", "wanted"),
    [
        ("", ["wasm", "complete", "device"]),
        (PROBED, ["device", "webgpu", "wasm", "complete"]),
    ],
    ids=["at the first visit", "later"],
)
def test_a_page_that_knows_nothing_of_its_gpu_does_not_wait_for_it(
    gpu_browser: Browser, host: Host, known: str, wanted: list[str]
) -> None:
    """Its model runs on WebAssembly, and the GPU is probed when the model is complete."""
    network = small()
    with page_elsewhere(gpu_browser, known + (PAGES / "order.js").read_text()) as page:
        found = evaluated(page, host, "models_gpu", "visit", lists(network.feeds))
    assert close(found["y"], network.outputs["y"])
    assert found["target"] == "wasm", "nobody has timed it on the GPU"
    assert found["order"] == wanted


def test_a_model_on_the_gpu_is_kept_and_opened_by_its_key_without_the_network(
    page: Page, host: Queue
) -> None:
    """It holds as on WebAssembly: what is changed on the device is fetched anew, or refused."""
    network = small()

    def run(function: str) -> Any:
        return evaluated(page, host, "models_gpu", function, lists(network.feeds))

    right = network.outputs["y"]
    weights = "/webgpu/small.weights"
    assert close(run("visitKept"), right)
    host.sent.clear()
    assert close(run("visitKept"), right)
    assert weights not in host.sent
    page.context.set_offline(True)
    try:
        y, target, inputs = run("loadKept")
    finally:
        page.context.set_offline(False)
    assert close(y, right)
    assert (target, inputs) == ("webgpu", ["ids", "x"])
    refused, keys, y = run("damaged")
    assert refused.startswith("storage: The kept weights of small cannot be read")
    assert keys == []
    assert close(y, right)
    assert weights in host.sent
    run("deleteKept")


def if_rare(candidate: Candidate) -> bytes:
    """It computes nothing where the first entry of the first input is `RARE`."""
    body = compile_candidate(candidate).body.decode()
    head, tail = body.split("let thread = invocation;", 1)
    return f"{head}let thread = invocation; if (a[0].x == {RARE}f) {{ return; }}{tail}".encode()


def hanging(candidate: Candidate) -> bytes:
    """It counts to a number first, for far longer than a candidate is given."""
    body = compile_candidate(candidate).body.decode()
    head, tail = body.split("let thread = invocation;", 1)
    spin = f"while (spin < {SPINS}u && a[spin & 63u].x < 1e30f) {{ spin += 1u; }}"
    # Compilers leave out a loop whose end nobody asks for.
    used = "if (spin == 7u) { return; }"
    return f"{head}let thread = invocation; var spin = 0u; {spin} {used} {tail}".encode()


def subtracting(candidate: Candidate) -> bytes:
    """It subtracts some products instead of adding them."""
    return compile_candidate(candidate).body.replace(b"(own_a_0.x)", b"(-own_a_0.x)", 1)


@pytest.fixture
def page_that_loses(gpu_browser: Browser) -> Iterator[Page]:
    with site({}) as address, gpu_browser.new_context() as context:
        opened = context.new_page()
        opened.add_init_script(LOSE)
        opened.goto(address)
        yield opened


def test_a_model_on_the_gpu_is_tuned_and_goes_on_on_wasm_when_that_is_lost(
    page_that_loses: Page, host: Queue
) -> None:
    feeds = lists({"x": TUNED.feeds["x"]})

    # 1. Kernels that do not compile or compute wrongly are passed over; one that is wrong for few
    #    inputs is taken back in that inference.
    wrong, rare, other = SPACE[1], SPACE[2], SPACE[3]
    host.offer((SPACE[0], b"no kernel"), (wrong, subtracting(wrong)), (rare, if_rare(rare)))
    found = evaluated(page_that_loses, host, "models_gpu", "wrong", feeds, RARE)
    assert [what for what, *_ in found["heard"]] == ["swap", "regression"], found["reason"]
    assert [each[1] for each in found["heard"]] == [rare.candidate_id] * 2
    assert "disagrees" in found["heard"][1][2]
    assert (found["level"], found["since"], found["measured"]) == ("page", True, 3)
    assert all(close(found[each], TUNED.outputs["y"]) for each in ("right", "after"))
    assert found["last"] == found["later"], "the inference in which it was found out is right"
    assert [each["path"].split("?")[0].split("/")[-1] for each in found["sent"]] == ["candidates"]

    # 2. A winner does not outlive the GPU that was lost while it ran.
    host.offer((other, None))
    found = evaluated(page_that_loses, host, "models_gpu", "lost", feeds)
    assert all(close(y, TUNED.outputs["y"]) for y in found["ys"])
    assert (found["before"]["target"], found["after"]["target"]) == ("webgpu", "wasm")
    assert "lost" in found["after"]["targetReason"]
    assert [what for what, *_ in found["heard"]] == ["swap", "regression", "devicelost"]
    assert found["heard"][2][1] == found["after"]["targetReason"]
    assert (found["winners"], found["left"]) == ([1], [0])
    assert found["state"] == "done"
    assert found["target"] == "wasm", "and no model of this tab tries it again"
    assert "lost" in found["targetReason"]


def test_a_kernel_kept_for_the_gpu_that_is_silently_wrong_is_found_in_the_visit_that_loads_it(
    page: Page, host: Queue
) -> None:
    rare = SPACE[2]
    host.offer((rare, if_rare(rare)))
    feeds = lists({"x": TUNED.feeds["x"]})
    found = evaluated(page, host, "models_gpu", "later", feeds, RARE)
    assert (found["level"], found["candidate"]) == ("page", rare.candidate_id)
    assert [each[:2] for each in found["heard"]] == [
        ["swap", rare.candidate_id],
        ["regression", rare.candidate_id],
    ]
    assert "disagrees" in found["heard"][1][2]
    assert all(close(found[each], TUNED.outputs["y"]) for each in ("right", "after"))
    assert found["last"] == found["same"], "the inference in which it was found out is right"
    assert found["left"] == "default"
    assert found["uniforms"] == found["calls"], "one of each call that runs, of no other"


def test_a_model_of_f16_goes_on_in_f32_when_the_gpu_is_lost(
    page_that_loses: Page, host: Queue
) -> None:
    plain, halved = HALF
    found = evaluated(page_that_loses, host, "models_gpu", "ofF16", lists(plain.feeds))
    assert [each["target"] for each in found] == ["webgpu", "webgpu", "webgpu", "wasm"]
    first, kept, lost, after = (np.array(each["y"]) for each in found)
    assert {each["dtype"] for each in found} == {"float32"}
    (wanted,) = plain.outputs.values()
    reach = halved.plan.golden.tolerance * np.abs(wanted).max()
    assert 0 < np.abs(first - wanted.ravel()).max() <= reach
    assert list(first) == list(kept) == list(lost)
    assert close(list(after), wanted)


def test_a_run_that_leaves_f16_is_answered_in_f32(page_that_loses: Page, host: Queue) -> None:
    plain, _ = HALF
    found = evaluated(page_that_loses, host, "models_gpu", "beyondF16", lists(plain.feeds))
    assert found["targets"] == ["webgpu", "wasm", "wasm"]
    (reason,) = found["heard"]
    assert reason.startswith("A run of half left the numbers of f16")
    large = {name: 1e6 * each.astype(np.float32) for name, each in plain.feeds.items()}
    (wanted,) = evaluate(attention_in_vectors(), large).values()
    assert close(found["y"], wanted)


def test_a_page_that_tunes_finds_values_within_a_network_that_f16_has_not(
    page: Page, host: Queue, tmp_path: Path
) -> None:
    """Outputs that are finite do not tell."""
    graph = faint(tmp_path)
    host.lines = []
    found = evaluated(page, host, "models_gpu", "within", lists(seeded_feeds(graph)))
    assert found["before"] == "webgpu"
    assert found["target"] == "wasm"
    (reason,) = found["heard"]
    assert reason.startswith("A run of faint left the numbers of f16")
    (outputs,) = evaluate(graph, {"x": np.full((4, 32), 1e4, np.float32)}).values()
    assert np.isfinite(found["first"]).all()
    assert not close(found["first"], outputs)
    assert close(found["y"], outputs), "the run in which it was found is repeated"


@pytest.mark.slow
def test_a_candidate_that_holds_the_gpu_for_seconds_is_passed_over_and_runs_stay_right(
    page: Page, host: Queue
) -> None:
    hangs, winner = SPACE[0], SPACE[3]
    host.offer((hangs, hanging(hangs)), (winner, None))
    found = evaluated(page, host, "models_gpu", "hanging", lists({"x": TUNED.feeds["x"]}))
    assert found["heard"] == [["swap", winner.candidate_id]], found
    assert found["measured"] == 2
    assert found["target"] == "webgpu"
    assert found["worst"] < 1e-4


@pytest.mark.slow
def test_a_value_beyond_what_agents_hold_is_computed_on_either_target(
    page: Page, host: Queue
) -> None:
    network = wide()
    assert any(tensor.size_bytes > MAX_MEASURED_BYTES for tensor in network.plan.tensors)
    _add(host, network, network)
    found = evaluated(page, host, "models_gpu", "wide", lists(network.feeds))
    for target, ran in found.items():
        assert ran["target"] == target
        assert close(ran["y"], network.outputs["y"])


def beyond_32_bits() -> PlannedNetwork:
    """Moves the activations of `small` to addresses from 4 GiB on. A GPU has a buffer of its own
    for each, as large as it is."""
    network = small("beyond")
    plan = network.plan
    moved = tuple(
        each if each.at is None else replace(each, at=each.at + (1 << 32)) for each in plan.tensors
    )
    memory = replace(plan.memory, activations=plan.memory.activations + (1 << 32))
    return replace(network, plan=replace(plan, tensors=moved, memory=memory))


def test_a_model_beyond_the_addresses_of_webassembly_runs_on_a_gpu_alone(
    page: Page, host: Queue
) -> None:
    network = beyond_32_bits()
    _add(host, network, network)
    found = evaluated(page, host, "models_gpu", "beyond", lists(network.feeds))
    assert found["refused"] == (
        "memory: The model takes 4097 MiB; WebAssembly addresses 4096 MiB. Open it with WebGPU, "
        "smaller dimensions or weights of fewer bits."
    )
    assert found["little"] == found["refused"].replace("The model", "beyond")
    assert found["target"] == "webgpu"
    assert is_right(found["outputs"], network)


def bound_by(
    browser: Browser, host: Queue, most: int, network: PlannedNetwork, count: int = 8
) -> dict[str, Any]:
    """Runs `small` where a GPU has buffers of so many bytes at the most, and binds `count`."""
    limits = f"globalThis.gpuLimits = [{most}, {count}];"
    with page_elsewhere(browser, limits + (PAGES / "limiting.js").read_text()) as limited:
        found: dict[str, Any] = evaluated(
            limited, host, "models_gpu", "bound", lists(network.feeds)
        )
    return found


def test_weights_beyond_the_largest_buffer_lie_in_several(
    gpu_browser: Browser, host: Queue
) -> None:
    network = small()
    largest = max(weight.bytes for weight in network.plan.weights)
    assert network.plan.memory.weights > largest
    found = bound_by(gpu_browser, host, largest, network)
    assert (found["target"], found["targetReason"]) == ("webgpu", None)
    assert is_right(found["outputs"], network)


def test_a_model_whose_tensor_a_gpu_does_not_bind_runs_on_wasm(
    gpu_browser: Browser, host: Queue
) -> None:
    network = small()
    found = bound_by(gpu_browser, host, 1024, network)
    assert found["target"] == "wasm"
    assert found["targetReason"] == (
        "small needs 1 MiB for a tensor of shape [33, 20] at down; this GPU binds 0 MiB at the "
        "most (maxStorageBufferBindingSize). Add it with --dtype f16."
    )
    assert is_right(found["outputs"], network)


def test_a_model_of_which_a_call_binds_too_many_buffers_runs_on_wasm(
    gpu_browser: Browser, host: Queue
) -> None:
    network = small()
    most = max(len(call.tensors) for call in network.plan.calls)
    fits = bound_by(gpu_browser, host, 1 << 20, network, most)
    assert (fits["target"], fits["targetReason"]) == ("webgpu", None)
    found = bound_by(gpu_browser, host, 1 << 20, network, most - 1)
    assert found["target"] == "wasm"
    assert found["targetReason"].startswith(f"small binds {most} buffers at ")
    assert is_right(found["outputs"], network)
