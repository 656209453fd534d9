"""One plan serves sentences of every length in Chromium, as onnxruntime computes each."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from playwright.sync_api import Browser

from fixtures.encoder import INPUTS, Encoder
from fixtures.model_site import SiteKernels
from kernelzoo.domain.workload import Workload
from tests.browser.model_host import CLASS, Host, close, evaluated, hosting, page_elsewhere
from tests.browser.model_plans import write_planned
from tests.browser.sites import ISOLATED, site
from tests.browser.test_branches import first_of
from tests.unit.graph.test_ranges import LONGEST, ONE, planned

ENCODER = Encoder(tokens=None, hidden=48, heads=4, vocabulary=61, embeds=True)
OUTPUTS = ("last_hidden_state", "pooled", "sentence_embedding")
RUNS = 20


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    with hosting_encoder(tmp_path_factory.mktemp("ranges"), CLASS, first_of) as made:
        yield made


@contextmanager
def hosting_encoder(
    folder: Path, device_class: str, kernel_of: Callable[[Workload], SiteKernels]
) -> Iterator[Host]:
    """Serves one plan of all lengths, with the kernel that is chosen of each workload."""
    made = Host(folder)
    path = made.folder / "encoder.onnx"
    onnx.save(ENCODER.model(), path)
    write_planned(made.folder, device_class, planned(path, batch=ONE), kernel_of)
    with hosting(made):
        yield made


def sentences() -> list[dict[str, Any]]:
    lengths = np.random.default_rng(3).permutation(LONGEST)[: RUNS - 2] + 1
    return [ENCODER.feeds(int(length), seed=int(length)) for length in (*lengths, 1, LONGEST)]


def given(feeds: dict[str, Any]) -> dict[str, Any]:
    return {name: entries.ravel().tolist() for name, entries in feeds.items()}


@pytest.mark.parametrize("isolated", [False, True])
def test_one_plan_serves_sentences_of_every_length(
    lone_browser: Browser, host: Host, isolated: bool
) -> None:
    feeds = sentences()
    session = onnxruntime.InferenceSession(str(host.folder / "encoder.onnx"))
    with site(ISOLATED if isolated else {}) as address:
        page = lone_browser.new_page()
        page.goto(address)
        told = evaluated(page, host, "ranges", "sentences", [given(each) for each in feeds])
        page.close()
    assert told["threads"] == (2 if isolated else 1)
    assert told["inputs"] == list(feeds[0])
    for each, found, shapes in zip(feeds, told["found"], told["shapes"], strict=True):
        right = session.run(None, each)
        for output, wanted in zip(OUTPUTS, right, strict=True):
            assert shapes[output] == list(wanted.shape)
            assert len(found[output]) == wanted.size
            assert close(found[output], wanted.ravel())


def test_one_plan_serves_batches_of_every_length(lone_browser: Browser, host: Host) -> None:
    shapes = [(5, 64), (1, 3), (3, 1), (2, 17), (4, 33)]
    feeds = [ENCODER.feeds(length, seed=batch, batch=batch) for batch, length in shapes]
    session = onnxruntime.InferenceSession(str(host.folder / "encoder.onnx"))
    asked = [{**given(each), "shape": shape} for each, shape in zip(feeds, shapes, strict=True)]
    with page_elsewhere(lone_browser) as page:
        told = evaluated(page, host, "ranges", "batches", asked)
    for each, found in zip(feeds, told, strict=True):
        for output, wanted in zip(OUTPUTS, session.run(None, each), strict=True):
            data, shape = found[output]
            assert shape == list(wanted.shape)
            assert close(data, wanted.ravel())


def test_a_profile_of_a_range_has_a_share_of_each_call_whatever_length_ran_last(
    lone_browser: Browser, host: Host
) -> None:
    with page_elsewhere(lone_browser) as page:
        profiles = evaluated(page, host, "ranges", "profiles", [1, LONGEST])
    assert len(profiles) == 3, "before the first run, and after each"
    for told in profiles:
        assert "NaN" not in told["table"]
        assert "undefined" not in told["table"]
        assert all(0 <= share <= 1 for share in told["shares"])
        if told["totalMs"] > 0:
            assert sum(told["shares"]) == pytest.approx(1)


ROWS = "whole numbers from -61 to 60, as they choose rows of a table"


def test_what_a_page_gives_beyond_the_range_is_refused_in_a_sentence(
    lone_browser: Browser, host: Host
) -> None:
    with page_elsewhere(lone_browser) as page:
        told = evaluated(page, host, "ranges", "refusals")
    assert told["entries"] == 9 * ENCODER.hidden
    assert told["same"] == [True] * 4
    alike = "give inputs of one extent, each with its shape."
    takes = "run: Input input_ids takes 1×sequence, where sequence is from 1 to 64, not"
    assert told["refused"] == [
        f"{takes} 65 entries: cut or split it.",
        f"{takes} 0 entries: cut or split it.",
        "run: sequence is 9 in input_ids and 8 in attention_mask: give inputs of one extent.",
        f"run: batch is 9 in input_ids and 1 in attention_mask: {alike}",
        f"{takes} 1×9×1: cut or split it.",
        "run: batch is 6 in input_ids and may be from 1 to 5: split it.",
        f"run: Input input_ids (int64) takes {ROWS}; entry 8 is 61.",
        "run: Input attention_mask is missing: give 1×64 entries of int64.",
        f"run: The model has no input other; its inputs are {', '.join(INPUTS)}.",
        f"run: Input input_ids (int64) takes {ROWS}; entry 0 is s.",
    ]
