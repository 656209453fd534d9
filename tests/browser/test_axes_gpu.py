"""A decoder whose cache and tokens are open both runs on WebGPU, on a software adapter."""

from pathlib import Path

from playwright.sync_api import Browser

from tests.browser.model_host import GPU_CLASS, evaluated, page_elsewhere
from tests.browser.model_plans import chosen_on_gpu
from tests.browser.test_axes import asked, assert_runs, hosting_decoder


def test_one_plan_takes_any_tokens_behind_a_cache_of_any_length(
    gpu_browser: Browser, tmp_path: Path
) -> None:
    with (
        hosting_decoder(tmp_path, GPU_CLASS, chosen_on_gpu) as host,
        page_elsewhere(gpu_browser) as page,
    ):
        told = evaluated(page, host, "axes", "runs", "decoder", asked(), {})
        assert told["target"] == "webgpu"
        assert_runs(told, host)
