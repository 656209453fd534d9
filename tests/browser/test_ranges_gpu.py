"""One plan serves sentences of every length on WebGPU, on a software adapter."""

from collections.abc import Iterator

import onnxruntime
import pytest
from playwright.sync_api import Browser

from tests.browser.model_host import GPU_CLASS, Host, close, evaluated, page_elsewhere
from tests.browser.model_plans import chosen_on_gpu
from tests.browser.test_ranges import ENCODER, OUTPUTS, given, hosting_encoder


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    with hosting_encoder(tmp_path_factory.mktemp("ranges"), GPU_CLASS, chosen_on_gpu) as made:
        yield made


def test_one_plan_serves_sentences_of_every_length(gpu_browser: Browser, host: Host) -> None:
    """Tiles of kernels end at 4, 8, 16, 32 and 64 rows. Long and short ones follow one another."""
    lengths = (64, 1, 3, 4, 5, 15, 16, 17, 31, 33, 63, 7, 2)
    feeds = [ENCODER.feeds(length, seed=length) for length in lengths]
    session = onnxruntime.InferenceSession(str(host.folder / "encoder.onnx"))
    with page_elsewhere(gpu_browser) as page:
        told = evaluated(page, host, "ranges", "sentences", [given(each) for each in feeds], {})
    assert told["target"] == "webgpu"
    for each, found in zip(feeds, told["found"], strict=True):
        for output, wanted in zip(OUTPUTS, session.run(None, each), strict=True):
            assert len(found[output]) == wanted.size
            assert close(found[output], wanted.ravel()), (output, wanted.shape)
