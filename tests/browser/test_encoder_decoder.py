"""Models of an encoder and a decoder in a page, on WebAssembly and on a software adapter of WebGPU:
their tokens are those of the papers in NumPy."""

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Browser, Page

from fixtures.model_site import Files, write_model
from kernelzoo.domain.operators.quantised import Form
from kernelzoo.domain.plan import Plan
from services.tuner.encoder_decoder.planning import plan_encoder_decoder
from tests.browser.language_models import chosen_on_gpu, chosen_on_wasm, remembered
from tests.browser.model_host import (
    CLASS,
    GPU_CLASS,
    PROBED,
    Host,
    evaluated,
    hosting,
    page_elsewhere,
)
from tests.encoder_decoder_folders import CONFIGS, VOCABULARY, write_encoder_decoder
from tests.encoder_decoder_reference import Model, generated, likeliest_text

CONTEXT, SOURCE = 24, 16
START = {
    "t5": [0],
    "t5-gated": [0],
    "bart": [2, 0],
    "mbart": [5],
    "marian": [89],
    "whisper": [3],
}
LEFT_OUT = {"marian": (89,)}
STOP = (2,)
COUNT = 8

pytestmark = pytest.mark.timeout(600)
"""Kernels of a model are compiled when it is asked for."""


@cache
def planned(family: str) -> tuple[Plan, Files, Model]:
    with TemporaryDirectory() as folder:
        weights = write_encoder_decoder(Path(folder), family)
        source = None if family == "whisper" else SOURCE
        lengths = [(CONTEXT, source)]
        made = remembered(plan_encoder_decoder(Path(folder), family, lengths, Form(width=8)))
        files = Files(weights=b"".join(made.weights.blocks()), golden=made.golden[0])
    return made.plans[0], files, Model(CONFIGS[family], weights)


def sources(family: str) -> list[np.ndarray[Any, Any]]:
    """Inputs of several lengths: the longest, the shortest, and one between."""
    random = np.random.default_rng(8)
    if family == "whisper":
        return [random.uniform(-1, 1, (16, 24)).astype(np.float32) for _ in range(2)]
    return [random.integers(0, VOCABULARY, length) for length in (SOURCE, 1, 6)]


class Models(Host):
    """Writes models when they are asked for, as their kernels take a while to compile."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._written: set[tuple[str, str]] = set()

    def has(self, family: str, target: str) -> None:
        if (family, target) in self._written:
            return
        self._written.add((family, target))
        on_wasm = target == "wasm"
        plan, files, _ = planned(family)
        choose = chosen_on_wasm if on_wasm else chosen_on_gpu
        folder = self.folder / target
        folder.mkdir(exist_ok=True)
        kernels = {key: choose(key) for key in plan.kernels}
        write_model(folder, CLASS if on_wasm else GPU_CLASS, plan, files, kernels)


def ran(
    page: Page,
    models: Models,
    function: str,
    family: str,
    target: str,
    texts: list[dict[str, Any]],
    **more: object,
) -> Any:
    models.has(family, target)
    given = {"family": family, "target": target, "texts": texts, **more}
    return evaluated(page, models, "encoder-decoder", function, given)


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Models]:
    made = Models(tmp_path_factory.mktemp("encoder-decoder"))
    with hosting(made):
        yield made


@pytest.fixture(scope="module")
def page(gpu_browser: Browser) -> Iterator[Page]:
    with page_elsewhere(gpu_browser, PROBED) as opened:
        yield opened


@pytest.mark.parametrize(
    ("family", "target"),
    [(family, "wasm") for family in CONFIGS]
    # A token takes long on the software adapter.
    + [(family, "webgpu") for family in ("t5-gated", "marian", "whisper")],
)
def test_tokens_are_those_of_the_paper_for_sources_of_every_length(
    page: Page, host: Models, family: str, target: str
) -> None:
    model, start = planned(family)[2], START[family]
    given = sources(family)
    count = COUNT if target == "wasm" else 3
    texts = [{"input": each.ravel().tolist(), "maxTokens": count} for each in given]
    # The last source again, with a prompt of its own.
    longer = [*start, 11, 30]
    texts.append({**texts[-1], "prompt": longer})
    found = ran(page, host, "generate", family, target, texts)
    assert found["target"] == target
    assert found["startTokens"] == start
    assert found["inputShape"] == ([16, 24] if family == "whisper" else [SOURCE])
    left_out = LEFT_OUT.get(family, ())
    right = [generated(model, each, start, count, STOP, left_out) for each in given]
    right.append(generated(model, given[-1], longer, count, STOP, left_out))
    assert found["found"] == right
    assert len({tuple(each) for each in right}) > 1, "tokens depend on the source"


@pytest.mark.parametrize(
    ("family", "target"), [("t5", "wasm"), ("marian", "wasm"), ("marian", "webgpu")]
)
def test_beams_find_the_text_that_numpy_finds(
    page: Page, host: Models, family: str, target: str
) -> None:
    model, start = planned(family)[2], START[family]
    source = sources(family)[2]
    count = 6 if target == "wasm" else 3
    # Tokens that often are among the likeliest end a text, so that some end early.
    stop = tuple(sorted({*generated(model, source, start, 4)[2:], *STOP}))
    asked: list[dict[str, Any]] = [
        {"beams": beams, "lengthPenalty": penalty, "stop": list(ends)}
        for beams, penalty in (((3, 1.0), (4, 0.0), (2, -1.5)) if target == "wasm" else ((3, 1.0),))
        for ends in (STOP, stop)
    ]
    texts = [{"input": source.tolist(), "maxTokens": count, **each} for each in asked]
    # The cache is that of no beam afterwards.
    texts.append({"input": source.tolist(), "maxTokens": count})
    found = ran(page, host, "generate", family, target, texts)
    left_out = LEFT_OUT.get(family, ())
    right = [
        likeliest_text(
            model,
            source,
            start,
            count,
            beams=each["beams"],
            stop=tuple(each["stop"]),
            length_penalty=each["lengthPenalty"],
            left_out=left_out,
        )
        for each in asked
    ]
    assert found["found"][:-1] == right
    assert found["found"][-1] == generated(model, source, start, count, STOP, left_out)


def test_what_no_encoder_takes_is_refused_in_a_sentence(page: Page, host: Models) -> None:
    model, source = planned("bart")[2], sources("bart")[2]
    text: dict[str, Any] = {"input": source.tolist(), "maxTokens": 3}
    texts: list[dict[str, Any]] = [
        {"input": []},
        {"input": [1] * 17},
        {"input": [1, 90]},
        {},
        {**text, "prompt": []},
        {**text, "beams": 17},
        {**text, "beams": 2, "temperature": 0.5},
        {**text, "beam": 2},
    ]
    found = ran(page, host, "refuse", "bart", "wasm", texts, text=text)
    for fault, told in zip(
        found["faults"],
        (
            "run: The input is empty",
            "run: The input has 17 tokens; the encoder of bart has room for 16",
            "run: 90 is no token of bart's encoder; they are 0 to 89",
            "run: input is to be an array of numbers",
            "run: The prompt is empty",
            "run: beams is to be a whole number from 1 to 16; 17 was given",
            "run: Beams are followed by the likeliest tokens",
            "run: beam is not known to llm.generate; beams may be meant",
            "run: bart has an encoder; say what that reads",
            "Error: enough",
        ),
        strict=True,
    ):
        assert told in fault
    assert found["found"] == generated(model, source, START["bart"], 3, STOP)


def test_a_spectrogram_is_given_whole(page: Page, host: Models) -> None:
    whole = sources("whisper")[0].ravel().tolist()
    text, texts = {"input": whole, "maxTokens": 3}, [{"input": whole[:-1]}]
    found = ran(page, host, "refuse", "whisper", "wasm", texts, text=text)
    assert "16 bands of 24 frames each, which are 384" in found["faults"][0]
