"""A language model in a page, on WebAssembly and on a software adapter of WebGPU: its tokens are
those of NumPy."""

import json
from collections.abc import Iterator
from hashlib import sha256
from shutil import copy, copytree
from threading import Event
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Browser, Page

from cli.demo.examples import served_examples
from fixtures.model_site import SiteKernels, write_model
from kernelzoo.domain.candidate import Candidate
from kernelzoo.domain.gpu import gpu_model
from kernelzoo.domain.target import TargetKind
from kernelzoo.formats import bundle
from kernelzoo.formats.bundle import BundledModel
from services.tuner.compile import compile_candidate
from services.tuner.schedules.registry import lite_space
from tests.browser.candidate_queue import Queue, QueueHandler
from tests.browser.language_models import (
    BYTES,
    HALVED,
    TEMPLATE,
    TINY,
    bytes_taken,
    chosen_on_gpu,
    chosen_on_wasm,
    decoder_that_grows,
    drawn_tokens,
    right_tokens,
    tiny_decoder,
    tiny_tokenizer,
    workload_of,
)
from tests.browser.model_host import (
    CLASS,
    COUNT,
    GPU_CLASS,
    LOSE,
    PROBED,
    Host,
    evaluated,
    hosting,
    page_elsewhere,
)
from tests.browser.sites import ISOLATED, site
from tests.browser.wasm_code import STOP, TRAP, at_first, counting, if_word
from tests.running import eventually

PROMPT = [1, 2, 3]
LONG = [(7 * place + 3) % 150 for place in range(30)]
"""A whole block of the prompt, a part of one, and the last token."""
DRAWN: dict[str, dict[str, Any]] = {
    "among all": {"temperature": 1.5, "seed": 4},
    "by another seed": {"temperature": 1.5, "seed": 2**32 - 5},
    "among few": {"temperature": 4.0, "topK": 7, "seed": 4},
    "among the likeliest": {"temperature": 1.0, "topP": 0.5, "seed": 4},
    "among either": {"temperature": 2.0, "topK": 20, "topP": 0.8, "seed": 9},
    "among those as likely": {"temperature": 1.0, "minP": 0.3, "seed": 4},
}
ADJUSTED: dict[str, dict[str, Any]] = {
    "no token twice": {"temperature": 0, "repetitionPenalty": 1e6},
    "repetition is dearer": {"temperature": 0, "repetitionPenalty": 1.3},
    "repetition is cheaper": {"temperature": 0, "repetitionPenalty": 0.5},
    "by how often": {"temperature": 0, "frequencyPenalty": 0.7},
    "by whether at all": {"temperature": 0, "presencePenalty": 2.0, "frequencyPenalty": -0.3},
    "one token forbidden": {"temperature": 0, "logitBias": {}},
    "one token always": {"temperature": 0, "logitBias": {"42": 100.0}},
    "drawn with all": {
        "temperature": 1.5,
        "seed": 4,
        "topK": 40,
        "minP": 0.05,
        "repetitionPenalty": 1.2,
        "frequencyPenalty": 0.4,
        "presencePenalty": 0.3,
        "logitBias": {"7": 2.0, "9": -100},
    },
}


SHORT, LONGER = 24, TINY.length
GROWN = decoder_that_grows("grown", (SHORT, LONGER))


TUNED, FILES = tiny_decoder("tuned")
HEAD = TUNED.kernels[TUNED.calls[-3].kernel]
"""The head's product; argmax and the step to the next place are behind it."""
SPACES = {
    TargetKind.WEBGPU: lite_space(
        workload_of(HEAD), TargetKind.WEBGPU, gpu_model("google", "swiftshader")
    ),
    TargetKind.WASM: tuple(
        each
        for each in lite_space(workload_of(HEAD), TargetKind.WASM)
        if "relaxed-simd" not in each.requires
    ),
}
PARAMETERS = 8
"""Wasm kernels of the head and of the step have five tensors, scratch, and a range; the first
local is an i32."""
HALF, HALF_FILES = tiny_decoder("half", HALVED)
WHOLE, WHOLE_FILES = tiny_decoder("half")
"""One model, with a cache of f16 for a GPU and with one of f32 for WebAssembly."""
TRAPPING, _ = tiny_decoder("trapping")
STEP = TRAPPING.kernels[TRAPPING.calls[-1].kernel]
"""The step to the next place, whose first input is the token that was chosen."""
OFFERED_STEPS, SERVED_STEPS = 1 << 14, 1 << 18
"""The kernels of `STEP` count so far. The zoo's takes some 16 times as long as the one that is
offered, which no load of a machine hides. As many calls of either are timed, as many of the
shorter one as a sample has, and that ends long before a candidate's two seconds."""


def slowed(candidate: Candidate, steps: int = 100_000) -> bytes:
    """It counts before it computes, to so many on WebAssembly."""
    if candidate.target is TargetKind.WASM:
        return at_first(candidate, counting(steps, PARAMETERS))
    body = compile_candidate(candidate).body.decode()
    head, tail = body.split("let thread = invocation;", 1)
    spin = "var spin = 0u; while (spin < 20000u && x0[spin & 15u] < 1e30f) { spin += 1u; }"
    used = "if (spin == 7u) { return; }"
    return f"{head}let thread = invocation; {spin} {used} {tail}".encode()


class Gateway(QueueHandler):
    """Lists the plans of the model `grown`, and has each of them for both targets; and the model
    `tuned`, with a queue of candidates."""

    served = "right"
    """State of the weights of the model `served`; one for all connections."""

    def do_POST(self) -> None:  # noqa: N802
        if self.path.startswith("/serve/"):
            Gateway.served = self.path.rpartition("/")[2]
        super().do_POST()

    def do_GET(self) -> None:  # noqa: N802
        right = self.host.folder / "webgpu" / "served.weights"
        if self.path != "/served.weights" or Gateway.served == "right":
            super().do_GET()
            return
        if Gateway.served == "missing":
            self.send_error(404)
            return
        body = right.read_bytes()
        other = self.host.folder / "webgpu" / "grown-40.weights"
        sent = {
            "other": bytes(len(body)),
            "longer": other.read_bytes() * 2,
            "shorter": body[: len(body) // 2],
            "half": body[: len(body) // 2],
        }[Gateway.served]
        self.send_response(200)
        length = len(body) if Gateway.served == "half" else len(sent)
        self.send_header("Content-Length", str(length))
        self.end_headers()
        self.wfile.write(sent)
        if Gateway.served == "half":
            self.wfile.flush()
            eventually(lambda: Gateway.served != "half", "the page has given up")
            self.close_connection = True

    def translate_path(self, path: str) -> str:
        asked = urlsplit(path)
        if asked.path.startswith("/v1/models/served/"):
            return str(self.host.folder / "webgpu" / "served.json")
        if asked.path.startswith("/served."):
            return str(self.host.folder / "webgpu" / asked.path[1:])
        if asked.path.startswith("/v1/models/half/"):
            folder = "wasm" if "wasm" in asked.path else "webgpu"
            return str(self.host.folder / folder / "half.json")
        if asked.path.startswith("/half."):
            folder = "wasm" if asked.path.endswith(".wasm") else "webgpu"
            return str(self.host.folder / folder / asked.path[1:])
        if asked.path.startswith("/v1/models/tuned/"):
            folder = "wasm" if "wasm" in asked.path else "webgpu"
            return str(self.host.folder / folder / "tuned.json")
        if asked.path.startswith("/v1/models/trapping/"):
            return str(self.host.folder / "wasm" / "trapping.json")
        if asked.path.startswith("/trapping."):
            return str(self.host.folder / "wasm" / asked.path[1:])
        if asked.path.startswith("/tuned."):
            return str(self.host.zoo / asked.path[1:])
        if asked.path == "/v1/models/grown":
            plans = [{"dimensions": {"context": length}} for length in (LONGER, SHORT)]
            listed = self.host.folder / "plans.json"
            listed.write_text(json.dumps({"name": "grown", "plans": plans}))
            return str(listed)
        if asked.path.startswith("/v1/models/grown/"):
            (context,) = parse_qs(asked.query)["context"]
            target = "wasm" if "wasm" in asked.path else "webgpu"
            return str(self.host.folder / target / f"grown-{context}.json")
        if asked.path.startswith(("/v1/artifacts", "/grown")):
            target = "webgpu" if asked.path.endswith(".webgpu") else "wasm"
            return super().translate_path(f"/{target}{asked.path}")
        return super().translate_path(path)


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Queue]:
    made = Queue(tmp_path_factory.mktemp("language"))
    for device_class, choose in ((GPU_CLASS, chosen_on_gpu), (CLASS, chosen_on_wasm)):
        folder = made.folder / ("wasm" if device_class == CLASS else "webgpu")
        folder.mkdir()
        for plan, files in (tiny_decoder(), tiny_decoder("served"), *GROWN):
            kernels = {key: choose(key) for key in plan.kernels}
            write_model(folder, device_class, plan, files, kernels)
    for target, device_class, choose, (plan, files) in (
        ("webgpu", GPU_CLASS, chosen_on_gpu, (HALF, HALF_FILES)),
        ("wasm", CLASS, chosen_on_wasm, (WHOLE, WHOLE_FILES)),
    ):
        kernels = {key: choose(key) for key in plan.kernels}
        write_model(made.folder / target, device_class, plan, files, kernels)
    made.zoo = made.folder / "webgpu"
    for target, device_class, choose in (
        (TargetKind.WEBGPU, GPU_CLASS, chosen_on_gpu),
        (TargetKind.WASM, CLASS, chosen_on_wasm),
    ):
        served = SPACES[target][0]
        slow = SiteKernels(candidate=served, fallback=served, body=slowed(served))
        kernels = {key: choose(key) for key in TUNED.kernels} | {HEAD: slow}
        write_model(made.folder / target, device_class, TUNED, FILES, kernels)
    kernels = {key: chosen_on_wasm(key) for key in TRAPPING.kernels}
    served = kernels[STEP].candidate
    slow = SiteKernels(candidate=served, fallback=served, body=slowed(served, SERVED_STEPS))
    write_model(made.folder / "wasm", CLASS, TRAPPING, FILES, kernels | {STEP: slow})
    (made.folder / "tokenizer.json").write_text(json.dumps(tiny_tokenizer()))
    (made.folder / "tokenizer_config.json").write_text(json.dumps({"chat_template": TEMPLATE}))
    with hosting(made, Gateway):
        yield made


@pytest.fixture(scope="module")
def page(gpu_browser: Browser) -> Iterator[Page]:
    with page_elsewhere(gpu_browser, LOSE + PROBED) as opened:
        yield opened


@pytest.mark.parametrize("target", ["webgpu", "wasm"])
def test_penalties_and_biases_choose_the_tokens_that_numpy_chooses(
    page: Page, host: Host, target: str
) -> None:
    count = 6 if target == "webgpu" else 12
    prompt = [5, 5, 11]
    (likeliest,) = right_tokens(prompt, 1)
    asked = ADJUSTED | {"one token forbidden": {"temperature": 0, "logitBias": {likeliest: -100}}}
    given = {"asked": asked, "count": count, "prompt": prompt, "target": target}
    found = evaluated(page, host, "language", "adjust", given)
    for name, options in asked.items():
        assert found["found"][name] == drawn_tokens(prompt, count, options), name
    assert found["found"]["one token always"] == [42] * count
    assert len(set(found["found"]["no token twice"])) == count
    assert likeliest not in found["found"]["one token forbidden"]
    assert found["survived"] == found["found"]["repetition is dearer"], "counted anew"
    assert found["plain"] == right_tokens(prompt, 6), "nothing is left of penalties"
    for told, fault in zip(
        (
            "160 is no token",
            "logitBias has a number",
            "repetitionPenalty is to be above 0; 0 was given",
            "temperature is to be 0 or more; 1 was given",
            "minP is to be from 0 to 1",
            "presencePenalty is to be a finite number",
            "maxtokens is not known to llm.generate; maxTokens may be meant",
        ),
        found["faults"],
        strict=True,
    ):
        assert told in fault


@pytest.mark.parametrize("target", ["webgpu", "wasm"])
def test_tokens_are_those_of_numpy_in_every_turn_and_on_another_gpu(
    page: Page, host: Host, target: str
) -> None:
    # A token takes long on the software adapter.
    count = 4 if target == "webgpu" else 10
    given = {"long": LONG, "drawn": DRAWN, "target": target, "count": count}
    found = evaluated(page, host, "language", "generate", given)
    assert found["target"] == target
    greedy = right_tokens(PROMPT, TINY.length - len(PROMPT))
    assert found["greedy"] == greedy[:12]
    assert found["whole"]["promptTokens"] == 3
    assert found["whole"]["tokens"] == 12
    assert found["next"] == right_tokens([*PROMPT, *greedy[:12], 7, 8], 6)
    assert found["reused"] == len(PROMPT) + 11, "the last token was generated, but not yet computed"
    assert found["rewound"] == 2
    assert found["other"] == right_tokens([1, 2, 9], 4)
    assert found["long"] == right_tokens(LONG, 4)
    assert found["longer"] == right_tokens([*LONG, *range(1, 7)], 2)
    assert found["blocks"] == len(LONG), "a block that begins in the middle of the cache"
    assert found["ended"] == greedy[: greedy.index(greedy[5])]
    assert found["full"] == greedy, "the context is filled to its last place"
    for name, asked in DRAWN.items():
        got, right = found["drawn"][name], drawn_tokens([5], count, asked)
        assert got == right[: len(got)], name
        assert len(got) == count or right[len(got)] in TINY.stop, name
    assert found["sure"] == found["after"] == greedy[:12]
    assert (len(found["seen"]), found["stopped"]) == (3, "Error: enough")
    assert found["unbegun"] == "Error: at once"
    assert found["atMaximum"] == right_tokens([*LONG, *range(9, 0, -1)], 1), "a block has no room"
    for told, fault in zip(
        (
            "is generating a text",
            "is no token",
            "prompt is empty",
            "prompt has 40 tokens",
            "prompt has 41 tokens; tiny-llama has room for 40",
            "160 is no token",
            "undefined is no token",
            "topP is to be above 0; 0 was given",
        ),
        found["faults"],
        strict=True,
    ):
        assert fault.startswith("run: ")
        assert told in fault
    assert found["together"][0] == "began", "of two in one turn the first"
    assert "is generating a text" in found["together"][1]
    assert found["survived"] == greedy[:12], "the GPU was lost in the middle"
    assert "disposed" in found["disposed"]


def test_a_token_on_the_gpu_is_one_pass_in_one_submission_and_makes_nothing(
    gpu_browser: Browser, host: Host
) -> None:
    with page_elsewhere(gpu_browser, COUNT) as page:
        found = evaluated(page, host, "language", "onePass", {})
    assert found["found"] == right_tokens(PROMPT, 12)
    each = {"submissions": 12, "passes": 12}
    assert found["ofText"] == dict.fromkeys(found["ofText"], 0) | each


def test_a_language_model_says_what_is_wrong_before_it_opens(page: Page, host: Host) -> None:
    before = len(host.sent)
    memory = evaluated(page, host, "language", "tooLittle", {})
    assert memory.startswith("memory: tiny-llama takes")
    sent = host.sent[before:]
    assert "/webgpu/tiny-llama.json" in sent
    assert "/webgpu/tiny-llama.weights" not in sent, "the memory is asked for before the download"
    host.held = Event()
    aborted = evaluated(page, host, "language", "inMidDownload", {})
    host.held.set()
    host.held = None
    assert aborted == "Error: no more"
    found = evaluated(page, host, "language", "faults", {})
    assert found["network"] == (
        "manifest: tiny-llama is a language model; open it by zoo.languageModel()."
    )
    assert found["blind"] == "profile: This browser has no WebGPU, or not in this page."


def test_threads_of_an_isolated_page_share_the_calls_of_a_token(
    gpu_browser: Browser, host: Host
) -> None:
    with site(ISOLATED) as address:
        page = gpu_browser.new_page()
        page.goto(address)
        found = evaluated(page, host, "language", "shared", {"long": LONG, "target": "wasm"})
        page.close()
    assert found["found"] == right_tokens(LONG, 8)
    assert found["threads"] == 2


STOP_AT_FIRST_PIECE = """
  new MutationObserver((_, observer) => {
    if (document.querySelector("[aria-busy=true] p")?.textContent === "") return;
    observer.disconnect();
    document.querySelector("#stop").click();
  }).observe(document.querySelector("#log"), { childList: true, subtree: true });
"""
READY = "document.querySelector('#send').disabled === false"
AT_REST = "document.querySelector('#stop').hidden && !document.querySelector('[aria-busy=true]')"


def test_a_context_grows_with_the_text_as_far_as_memory_allows(page: Page, host: Host) -> None:
    before = len(host.sent)
    given = {"long": LONG, "target": "wasm", "memoryBytes": bytes_taken(GROWN[1][0]) - 1}
    found = evaluated(page, host, "language", "grow", given)
    greedy = right_tokens(PROMPT, LONGER - len(PROMPT), BYTES)
    assert found["length"] == LONGER
    assert found["filled"] == [greedy, "length"], "a larger plan went on with the text"
    assert (found["next"], found["reused"]) == (greedy[30:32], len(PROMPT) + 29)
    assert found["cut"] == [greedy[: SHORT - len(PROMPT)], "length"]
    assert found["refused"].startswith("memory: grown-")
    assert found["after"] == [greedy[:4], "length"], "the smaller plan is still there"
    asked = [path for path in host.sent[before:] if path.startswith("/v1/models/grown/")]
    contexts = [parse_qs(urlsplit(path).query)["context"] for path in asked]
    assert contexts[:3] == [[str(SHORT)], [str(LONGER)], [str(SHORT)]]
    fetched = [path for path in host.sent[before:] if path.endswith(f"{LONGER}.weights")]
    assert len(fetched) == 1, "what has no room is not fetched"


@pytest.mark.parametrize("target", ["webgpu", "wasm"])
def test_a_language_model_that_is_kept_outgrows_its_plan_without_a_network(
    page: Page, host: Queue, target: str
) -> None:
    right = right_tokens(PROMPT, LONGER - len(PROMPT), BYTES)
    begun, keys = evaluated(page, host, "language", "keep", {"target": target})
    assert (begun, keys) == (right[:4], ["chat"])
    before = len(host.sent)
    page.context.set_offline(True)
    try:
        found = evaluated(page, host, "language", "offline", {"target": target})
    finally:
        page.context.set_offline(False)
    assert (found["filled"], found["length"], found["target"]) == (right, LONGER, target)
    assert host.sent[before:] == []
    assert found["gone"].startswith("network: ")
    assert found["keys"] == []


@pytest.mark.parametrize("target", ["webgpu", "wasm"])
def test_a_language_model_that_is_kept_runs_in_a_page_that_is_loaded_anew_without_its_zoo(
    page: Page, host: Queue, target: str
) -> None:
    """The files of the SDK are still there."""
    right = right_tokens(PROMPT, LONGER - len(PROMPT), BYTES)
    begun, keys = evaluated(page, host, "language", "keep", {"target": target})
    assert (begun, keys) == (right[:4], ["chat"])
    page.reload()
    host.away = ("/v1/", "/grown")
    try:
        found = evaluated(page, host, "language", "offline", {"target": target})
    finally:
        host.away = ()
    assert (found["filled"], found["length"], found["target"]) == (right, LONGER, target)
    assert found["gone"].startswith("network: "), "nothing was fetched before either"


@pytest.mark.parametrize("target", ["webgpu", "wasm"])
def test_a_bundle_on_a_static_host_has_every_context_of_a_language_model(
    page: Page, host: Queue, target: str
) -> None:
    gpu, wasm = bundle.any_classes()[-2][1], bundle.any_classes()[-1][0]
    models = [
        BundledModel(
            name="grown",
            dimensions={"context": length},
            device_class=device_class,
            body=(host.folder / folder / f"grown-{length}.json").read_bytes(),
        )
        for length in (LONGER, SHORT)
        for folder, device_class in (("wasm", wasm), ("webgpu", gpu))
    ]
    (host.folder / "bundle.json").write_bytes(bundle.index("grown", (), models))
    for each in models:
        path = host.folder / bundle.manifest_path(each.body)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(each.body)
    before = len(host.sent)
    found = evaluated(page, host, "language", "bundled", {"target": target})
    assert found["target"] == target
    assert found["length"] == LONGER
    assert found["found"] == right_tokens(PROMPT, LONGER - len(PROMPT), BYTES)
    assert "has no model grown with context 7" in found["other"]
    asked = [path for path in host.sent[before:] if path.startswith("/v1/models/")]
    assert asked == [], "a static host knows of no queries"


PART = 3
"""Chunks of a file."""


def split_bundle(host: Host) -> dict[str, int]:
    """Writes split/bundle.json of a model whose weights lie in several files; gives how many."""
    folder, chunk = host.folder / "split", 4096
    counts, models = {}, []
    for length in (LONGER, SHORT):
        body = json.loads((host.folder / f"wasm/grown-{length}.json").read_text())
        weights = (host.folder / f"wasm/grown-{length}.weights").read_bytes()
        parts = [weights[at : at + chunk] for at in range(0, len(weights), chunk)]
        body["plan"]["chunks"] = [
            {"bytes": len(part), "sha256": sha256(part).hexdigest()} for part in parts
        ]
        for at in range(0, len(parts), PART):
            part = folder / f"grown-{length}.weights.{at // PART}"
            part.parent.mkdir(exist_ok=True)
            part.write_bytes(b"".join(parts[at : at + PART]))
        counts[f"grown-{length}.weights"] = -(-len(parts) // PART)
        models.append(
            BundledModel(
                name="grown",
                dimensions={"context": length},
                device_class=bundle.any_classes()[-1][0],
                body=json.dumps(body).encode(),
            )
        )
        for ending in ("golden", "wasm"):
            copy(host.folder / f"wasm/grown-{length}.{ending}", folder)
    copytree(host.folder / "wasm/v1", folder / "v1")
    (folder / "bundle.json").write_bytes(bundle.index("grown", (), models, file_bytes=PART * chunk))
    for each in models:
        path = folder / bundle.manifest_path(each.body)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(each.body)
    return counts


def test_a_language_model_whose_weights_are_several_files_is_kept_and_let_go(
    gpu_browser: Browser, host: Queue
) -> None:
    right = right_tokens(PROMPT, LONGER - len(PROMPT), BYTES)
    counts = split_bundle(host)
    assert min(counts.values()) > 1
    with page_elsewhere(gpu_browser, PROBED) as page:
        before = len(host.sent)
        first = evaluated(page, host, "language", "keepSplit", {})
        asked = [path.rpartition("/")[2] for path in host.sent[before:]]
        assert (first["found"], first["open"]) == (right, [])
        for name, count in counts.items():
            parts = sorted(path for path in asked if path.startswith(name))
            assert sorted(set(parts)) == sorted(f"{name}.{part}" for part in range(count))
        before = len(host.sent)
        page.context.set_offline(True)
        kept = evaluated(page, host, "language", "keepSplit", {})
        assert kept["found"] == right
        assert host.sent[before:] == []
        assert kept["open"] == ["fulfilled"]
        assert kept["disposed"] == ["rejected"], "an address that is held holds its file"


@pytest.mark.parametrize("target", [TargetKind.WEBGPU, TargetKind.WASM])
def test_a_language_model_is_tuned_while_no_token_is_asked_for(
    page: Page, host: Queue, target: TargetKind
) -> None:
    _, wrong, other, *_ = SPACES[target]
    host.zoo = host.folder / target
    bad = at_first(wrong, STOP) if target is TargetKind.WASM else b"no kernel"
    host.offer((wrong, bad), (other, None))
    found = evaluated(page, host, "language", "tune", {"long": LONG, "target": target})
    host.zoo = host.folder / "webgpu"
    greedy = right_tokens(LONG, 10)
    assert found["heard"] == [["swap", other.candidate_id]], found
    assert (found["measured"], found["won"]) == (2, [other.candidate_id])
    assert (found["before"], found["after"]) == (greedy[:8], greedy[8:])
    assert found["reused"] == len(LONG) + 7, "the cache is as the text left it"
    assert found["again"] == greedy[:8]
    assert found["tuning"] == "undefined"
    greedy = right_tokens(PROMPT, LONGER - len(PROMPT), BYTES)
    assert found["filled"] == greedy, "the tuner follows to a larger plan"


def test_a_kernel_that_traps_in_the_middle_of_a_text_is_taken_back_and_the_text_goes_on(
    page: Page, host: Queue
) -> None:
    greedy = right_tokens(LONG, 10)
    served = chosen_on_wasm(STEP).candidate
    other = next(
        each
        for each in lite_space(workload_of(STEP), TargetKind.WASM)
        if "relaxed-simd" not in each.requires and each != served
    )
    host.zoo = host.folder / "wasm"
    trapping = counting(OFFERED_STEPS, PARAMETERS) + if_word(greedy[1], TRAP)
    host.offer((other, at_first(other, trapping)))
    found = evaluated(page, host, "language", "traps", {"long": LONG, "target": "wasm"})
    host.zoo = host.folder / "webgpu"
    assert len(found["heard"]) == 2, found
    swap, regression = found["heard"]
    assert swap == ["swap", other.candidate_id]
    assert regression[:2] == ["regression", other.candidate_id]
    assert "trapped" in regression[2]
    assert (found["found"], found["more"]) == (greedy, greedy[3:7])


def test_a_text_goes_on_where_webassembly_runs_once_its_gpu_is_lost_for_good(
    page: Page, host: Host
) -> None:
    found = evaluated(page, host, "language", "lostTwice", {})
    assert found["targets"] == ["webgpu", "wasm"]
    greedy = right_tokens(PROMPT, LONGER - len(PROMPT), BYTES)
    assert found["found"] == greedy, "on three memories"
    assert "lost" in found["targetReason"]
    assert found["share"] == pytest.approx(1)


def test_memory_for_a_cache_of_f16_alone_suffices_until_the_gpu_is_lost_for_good(
    page: Page, host: Host
) -> None:
    before = len(host.sent)
    given = {"memoryBytes": bytes_taken(WHOLE) - 1}
    found = evaluated(page, host, "language", "halfInLittle", given)
    assert found["refused"].startswith("memory: half takes"), "WebAssembly has a cache of f32"
    assert found["target"] == "webgpu"
    right = right_tokens(PROMPT, TINY.length - len(PROMPT), config=HALVED)
    assert len(found["found"]) > 3, "the GPU was lost once before"
    assert found["found"] == right[: len(found["found"])]
    assert found["lost"].startswith("memory: half takes")
    kernels = [path for path in host.sent[before:] if path.endswith(".wasm")]
    assert kernels == [], "nothing is fetched that has no room"


def test_a_cache_of_f16_is_half_as_large_and_its_tokens_are_those_of_numpy(
    page: Page, host: Host
) -> None:
    assert HALF_FILES == WHOLE_FILES, "a page fetches the same files"
    found = evaluated(page, host, "language", "halfCache", {"long": LONG})
    assert found["targets"] == ["webgpu", "wasm"], "where the plan of f32 goes on"
    assert found["long"] == right_tokens(LONG, 4, config=HALVED)
    assert found["found"] == right_tokens(PROMPT, TINY.length - len(PROMPT), config=HALVED)
    kept = sum(state.size_bytes for state in WHOLE.states[3:])
    assert bytes_taken(WHOLE) - bytes_taken(HALF) == kept // 2
    assert found["memoryBytes"] < bytes_taken(WHOLE) - kept // 4


@pytest.mark.parametrize(
    ("served", "told"),
    [
        ("right", "nothing was refused"),
        ("other", "artifact: "),
        ("shorter", "network: "),
        ("longer", "artifact: "),
        ("missing", "artifact: "),
        ("half", "Error: waited enough"),
    ],
)
def test_weights_that_changed_while_the_gpu_was_lost_are_an_error_and_no_wait(
    page: Page, host: Queue, served: str, told: str
) -> None:
    """`half` sends one half and then nothing more."""
    found = evaluated(page, host, "language", "elsewhere", {"served": served})
    greedy = right_tokens(PROMPT, 12)
    assert found["found"] == (greedy if served == "right" else greedy[: len(found["found"])])
    assert found["told"].startswith(told), found["told"]


def test_a_tab_that_is_closed_in_mid_download_is_no_harm_to_the_next(
    gpu_browser: Browser, page: Page, host: Host
) -> None:
    host.held = Event()
    before = len(host.sent)
    with page_elsewhere(gpu_browser) as first:
        evaluated(first, host, "language", "left", {"target": "wasm"})
        weights = "/wasm/tiny-llama.weights"
        eventually(lambda: weights in host.sent[before:], "half of the weights")
    host.held.set()
    host.held = None
    found = evaluated(page, host, "language", "back", {"target": "wasm"})
    assert found == right_tokens(PROMPT, 4)


def test_the_chat_example_answers_stops_and_says_what_is_wrong(
    gpu_browser: Browser, host: Host
) -> None:
    complaints: list[str] = []
    with served_examples() as origin:
        page = gpu_browser.new_page(viewport={"width": 340, "height": 700})
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto(
            f"{origin}/chat/?zoo={host.url}&model={host.url}/wasm/tiny-llama.json&tokenizer={host.url}"
        )
        page.wait_for_function(READY)
        assert (
            page.get_by_role("status").inner_text() == "tiny-llama is ready: 40 tokens of context."
        )
        # An answer that is drawn may end at once.
        page.evaluate("document.querySelector('#temperature').value = 0")
        # An answer that is stopped is kept as far as it came.
        page.evaluate(STOP_AT_FIRST_PIECE)
        page.get_by_role("textbox", name="Message").fill("one")
        page.keyboard.press("Enter")
        page.get_by_text("Stopped.").wait_for()
        page.wait_for_function(AT_REST)
        # A prompt that is too long goes back to where it can be changed.
        page.keyboard.type("many words " * 9)
        page.get_by_role("button", name="Send").click()
        page.get_by_role("alert").wait_for()
        assert "tiny-llama has room for 40" in page.get_by_role("alert").inner_text()
        assert page.get_by_role("textbox", name="Message").input_value().startswith("many words")
        page.get_by_role("button", name="New conversation").click()
        page.get_by_role("textbox", name="Message").fill("two")
        page.keyboard.press("Enter")
        page.get_by_text("of 4 tokens before it were in the cache").wait_for()
        page.wait_for_function(AT_REST)
        said = page.get_by_role("article").all_inner_texts()
        page.reload()
        kept = page.get_by_role("article").all_inner_texts()
        assert [each.split()[:2] for each in kept] == [each.split()[:2] for each in said]
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        page.close()
    assert complaints == []
