"""A decoder whose cache and tokens are open both runs in Chromium on each target, as onnxruntime
computes it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from numpy.typing import NDArray
from playwright.sync_api import Browser

from fixtures.language_configs import LLAMA
from fixtures.model_site import SiteKernels
from kernelzoo.domain.workload import Workload
from tests.browser.model_host import (
    CLASS,
    Host,
    close,
    evaluated,
    hosting,
    page_elsewhere,
)
from tests.browser.model_plans import chosen_in_javascript, write_planned
from tests.browser.sites import site
from tests.browser.test_branches import first_of
from tests.unit.graph.decoders import EXTENTS, decoder_feeds, planned_decoder
from workers.fleet.chromium import opened_profile

TEXT = (3, 1, 4, 1, 5)
TAKEN = 7
JAVASCRIPT = "0000000000000000:r0-0:javascript"


@contextmanager
def hosting_decoder(
    folder: Path, device_class: str, kernel_of: Callable[[Workload], SiteKernels]
) -> Iterator[Host]:
    made = Host(folder)
    model = planned_decoder(made.folder / "decoder.onnx", plain=True)
    write_planned(made.folder, device_class, model, kernel_of)
    with hosting(made):
        yield made


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    with hosting_decoder(tmp_path_factory.mktemp("axes"), CLASS, first_of) as made:
        yield made


def shaped(feeds: dict[str, NDArray[Any]]) -> dict[str, Any]:
    return {name: [entries.ravel().tolist(), entries.shape] for name, entries in feeds.items()}


def assert_runs(told: dict[str, Any], host: Host) -> None:
    session = onnxruntime.InferenceSession(str(host.folder / "decoder.onnx"))
    names = [each.name for each in session.get_outputs()]
    for extents, found in zip(EXTENTS, told["found"], strict=True):
        right = session.run(None, decoder_feeds(*extents, plain=True))
        for name, wanted in zip(names, right, strict=True):
            data, shape = found[name]
            assert shape == list(wanted.shape), (extents, name)
            assert close(data, wanted), (extents, name)


def asked() -> list[dict[str, Any]]:
    return [shaped(decoder_feeds(*extents, plain=True)) for extents in EXTENTS]


def test_one_plan_takes_any_tokens_behind_a_cache_of_any_length(
    lone_browser: Browser, host: Host
) -> None:
    with page_elsewhere(lone_browser) as page:
        told = evaluated(page, host, "axes", "runs", "decoder", asked())
    assert told["target"] == "wasm"
    assert told["inputs"] == list(decoder_feeds(1, 1, plain=True))
    assert_runs(told, host)


def test_the_same_in_javascript(lone_browser: Browser, tmp_path: Path) -> None:
    with (
        hosting_decoder(tmp_path, JAVASCRIPT, chosen_in_javascript) as host,
        site({}) as address,
        opened_profile(
            lone_browser.browser_type, str(tmp_path / "profile"), "--js-flags=--jitless"
        ) as context,
    ):
        page = context.pages[0]
        page.goto(address)
        told = evaluated(page, host, "axes", "runs", "decoder", asked(), None)
        assert told["target"] == "javascript"
        assert_runs(told, host)


def test_a_text_goes_on_by_the_cache_that_each_run_leaves(
    lone_browser: Browser, host: Host
) -> None:
    with page_elsewhere(lone_browser) as page:
        told = evaluated(page, host, "axes", "decoded", "decoder", TEXT, TAKEN)
    session = onnxruntime.InferenceSession(str(host.folder / "decoder.onnx"))
    tokens = [*TEXT]
    for _ in range(TAKEN):
        feeds = decoder_feeds(0, len(tokens), plain=True)
        logits, *_ = session.run(["logits"], {**feeds, "input_ids": np.array([tokens])})
        tokens.append(int(logits.argmax()))
    assert told["all"] == tokens
    lengths = range(len(TEXT), len(TEXT) + TAKEN)
    assert told["shapes"] == [[1, LLAMA.kv_heads, n, LLAMA.head_dim] for n in lengths]


def test_feeds_of_other_extents_are_refused_in_a_sentence(
    lone_browser: Browser, host: Host
) -> None:
    right = {
        n: {"data": d, "shape": s} for n, (d, s) in shaped(decoder_feeds(3, 2, plain=True)).items()
    }
    key, others = "past_key_values.0.key", "past_key_values.0.value"
    ones = {"data": [1] * 6, "shape": [1, 6]}
    long = decoder_feeds(13, 2, plain=True)[key]
    beyond = {"data": long.ravel().tolist(), "shape": long.shape}
    plain = right[key]["data"]
    with page_elsewhere(lone_browser) as page:
        refused = evaluated(
            page, host, "axes", "refusals", "decoder",
            [
                {**right, "attention_mask": ones},
                {**right, key: beyond},
                {**right, others: {"data": plain[:64], "shape": [1, 2, 2, 16]}},
                {**right, key: {"data": plain[:90], "shape": [1, 2, 3, 16]}},
                {**right, "input_ids": [1] * 13},
            ],
        )  # fmt: skip
    takes = f"run: Input {key} takes 1×2×past×16, where past is from 0 to 12, not"
    longest = "run: Input input_ids takes 1×sequence, where sequence is from 1 to 12, not"
    both = f"run: past is 3 in {key} and sequence is 2 in input_ids and past+sequence is 6 in"
    alike = "give inputs of one extent."
    assert refused == [
        f"{both} attention_mask: {alike}",
        f"{takes} 1×2×13×16: cut or split it.",
        f"run: past is 3 in {key} and 2 in {others}: {alike}",
        f"{takes} 1×2×3×16: cut or split it.",
        f"{longest} 13 entries: cut or split it.",
    ]
