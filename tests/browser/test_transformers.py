"""Pipelines of transformers.js run on a zoo's kernels, and answer what they answer on
onnxruntime-web: one page for each, with another import map and the same text."""

from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Browser, Page
from typer.testing import CliRunner

from cli.app import app
from cli.stack.supervisor import Stack
from fixtures import hub
from kernelzoo.serving import serving
from tests.browser.model_host import PAGES

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

ROOT = Path(__file__).parents[2]
PACKAGES = Path(__file__).parent / "transformers" / "node_modules" / "@huggingface"
RUNTIMES = ROOT / "bench" / "page" / "node_modules"
REAL = "/onnxruntime-web/dist/ort.webgpu.bundle.min.mjs"
PAGE = """<!doctype html><title>an application</title><script type="importmap">{"imports": {
  "@huggingface/transformers": "/@huggingface/transformers/dist/transformers.web.js",
  "@huggingface/jinja": "/@huggingface/jinja/dist/index.js",
  "@huggingface/tokenizers": "/@huggingface/tokenizers/dist/tokenizers.mjs",
  "onnxruntime-common": "/onnxruntime-common/dist/esm/index.js",
  "onnxruntime-web-real": "REAL",
  "onnxruntime-web": "RUNTIME",
  "onnxruntime-web/webgpu": "RUNTIME"
}}</script>""".replace("REAL", REAL)
CALL = "async ([name, given]) => (await import('/pages/transformers.js'))[name](...given)"

TEXTS = ("The kernel runs fast.", "a crowd waits slowly and runs", "Paris.")


class Quiet(SimpleHTTPRequestHandler):
    extensions_map = {**SimpleHTTPRequestHandler.extensions_map, ".mjs": "text/javascript"}  # noqa: RUF012

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def address(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A site with the application in two pages, `zoo.html` and `real.html`, and its models, of
    which the zoo has all but Whisper's decoder."""
    folder = tmp_path_factory.mktemp("application")
    (folder / "@huggingface").symlink_to(PACKAGES)
    for name in ("onnxruntime-common", "onnxruntime-web"):
        (folder / name).symlink_to(RUNTIMES / name)
    (folder / "pages").symlink_to(PAGES)
    for name, runtime in (("zoo", f"{stack.url}/client/ort.js"), ("real", REAL)):
        (folder / f"{name}.html").write_text(PAGE.replace("RUNTIME", runtime))
    models = folder / "models"
    hub.bert(models / "features", quantised=True)
    hub.bert(models / "masks", hub.WORDS, per_token=True)
    hub.bert(models / "entities", hub.LABELS, per_token=True)
    hub.bert(models / "texts", hub.ENTAILMENT)
    hub.vit(models / "images")
    hub.llama(models / "llama")
    hub.whisper(models / "whisper")
    one = ("--dim", "batch_size=1")
    for name, file, dimensions in (
        ("features", "features/onnx/model.onnx", hub.TEXT_RANGES),
        # What an entry is rounded to depends on the others of a batch.
        (
            "quantised",
            "features/onnx/model_quantized.onnx",
            (*hub.TEXT_RANGES[2:], "--dim", "batch=1"),
        ),
        ("masks", "masks/onnx/model.onnx", hub.TEXT_RANGES),
        ("entities", "entities/onnx/model.onnx", hub.TEXT_RANGES),
        ("texts", "texts/onnx/model.onnx", hub.TEXT_RANGES),
        ("images", "images/onnx/model.onnx", one),
        ("llama", "llama/onnx/model_q4.onnx", hub.DECODER_RANGES),
        ("speech", "whisper/onnx/encoder_model.onnx", one),
    ):
        words = ("models", "add", str(models / file), "--name", name, *dimensions)
        added = CliRunner().invoke(app, [*words, "--state", str(stack.place.root)])
        assert added.exit_code == 0, added.output
    handler = partial(Quiet, directory=str(folder))
    with serving(ThreadingHTTPServer(("127.0.0.1", 0), handler)) as server:
        yield f"http://127.0.0.1:{server.server_port}"


def call(page: Page, name: str, *given: object) -> Any:
    return page.evaluate(CALL, [name, list(given)])


@pytest.fixture
def both(browser: Browser, address: str, stack: Stack) -> Iterator[tuple[Page, Page]]:
    """The page on the zoo, and the page on onnxruntime-web."""
    pages = []
    for name in ("zoo", "real"):
        page = browser.new_page()
        page.goto(f"{address}/{name}.html")
        call(page, "configure", {"url": stack.url, "backend": "wasm"})
        pages.append(page)
    yield pages[0], pages[1]
    for page in pages:
        page.close()


def assert_same(ours: Any, theirs: Any, where: str = "") -> None:
    """Numbers may differ by 1e-4 of the largest of their list; words and their order may not."""
    if isinstance(theirs, dict):
        assert ours.keys() == theirs.keys(), where
        for key, value in theirs.items():
            assert_same(ours[key], value, f"{where}.{key}")
    elif isinstance(theirs, list) and not all(isinstance(each, int | float) for each in theirs):
        assert len(ours) == len(theirs), where
        for n, value in enumerate(theirs):
            assert_same(ours[n], value, f"{where}[{n}]")
    elif isinstance(theirs, list | float):
        assert np.shape(ours) == np.shape(theirs), where
        reach = 1e-4 * np.abs(theirs).max(initial=1e-3)
        assert np.abs(np.subtract(ours, theirs)).max(initial=0) <= reach, where
    else:
        assert ours == theirs, where


EACH = [[text] for text in TEXTS]
PIPELINES: dict[str, tuple[str, str, list[Any], dict[str, Any], dict[str, str | None]]] = {
    "feature-extraction": (
        "features", "fp32", [*EACH, [list(TEXTS)]], {"pooling": "mean", "normalize": True},
        {"model": "features"},
    ),
    "feature-extraction of bytes": ("features", "q8", EACH, {}, {"model": "quantised"}),
    "fill-mask": (
        "masks", "fp32", [["the [MASK] runs."], ["[MASK] waits"]], {}, {"model": "masks"},
    ),
    "token-classification": ("entities", "fp32", EACH, {}, {"model": "entities"}),
    "text-classification": ("texts", "fp32", EACH, {"top_k": 3}, {"model": "texts"}),
    "zero-shot-classification": (
        "texts", "fp32", [[text, ["crowd", "paris"]] for text in TEXTS], {}, {"model": "texts"},
    ),
    "image-classification": ("images", "fp32", [["image"]], {"top_k": 3}, {"model": "images"}),
    "text-generation": (
        "llama", "q4", [["!#%+5"]], {"max_new_tokens": 6, "do_sample": False}, {"model": "llama"},
    ),
    "automatic-speech-recognition": (
        "whisper", "fp32", [["tone"]], {}, {"model": "speech", "decoder_model_merged": None},
    ),
}  # fmt: skip
"""By task: the model, its dtype, inputs, options, and which of the zoo's models run each session,
None where it is onnxruntime-web."""


SORTED = ("fill-mask", "text-classification", "image-classification")
"""transformers.js sorts their scores by a network of one TopK, which is onnxruntime-web's."""


@pytest.mark.parametrize("name", PIPELINES)
def test_a_pipeline_answers_as_on_onnxruntime(both: tuple[Page, Page], name: str) -> None:
    model, dtype, inputs, options, expected = PIPELINES[name]
    task = name.removesuffix(" of bytes")
    zoo, real = (call(page, "outputs", task, model, dtype, inputs, options) for page in both)
    assert_same(zoo["outputs"], real["outputs"])
    assert zoo["engines"].keys() == expected.keys()
    for session, by in expected.items():
        engine = zoo["engines"][session]
        assert (engine["engine"] == "kernelzoo") is (by is not None), engine["why"]
        assert engine["model"] == by
    if task not in SORTED and None not in expected.values():
        assert zoo["loaded"] == 0, "onnxruntime-web is loaded for nothing"
