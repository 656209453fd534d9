"""Every default kernel becomes a pipeline on SwiftShader, the adapter of machines without a GPU.

About a minute: each operator's first kernel for SwiftShader and for any GPU, and of convolutions
those whose drivers once took 10 GB.
"""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Page

from kernelzoo.domain.gpu import ANY_GPU, GpuModel, gpu_model
from kernelzoo.domain.operators import OPERATORS
from kernelzoo.domain.operators.attention import HeadsOperand, ManyRowsAttention, attention
from kernelzoo.domain.target import TargetKind
from kernelzoo.domain.workload import Workload
from services.tuner.compile import compile_candidate
from services.tuner.schedules.registry import lite_space
from tests.browser.sites import site
from tests.examples import one_in
from tests.unit.tuner.reference import EXAMPLES
from workers.fleet.chromium import launched_chromium
from workers.fleet.gpu import GpuChoice, gpu_flags

LIMIT_MS = 20_000
"""Ten times what a kernel may take: other work of this machine is no fault of the kernel."""

CREATE = """async ({ text, entries, limitMs }) => {
  globalThis.adapter = await navigator.gpu?.requestAdapter();
  if (!adapter) return null;
  const device = await adapter.requestDevice();
  const module = device.createShaderModule({ code: text });
  const made = entries.map((entryPoint) =>
    device.createComputePipelineAsync({ layout: 'auto', compute: { module, entryPoint } }));
  const late = new Promise((resolve) => setTimeout(resolve, limitMs, 'late'));
  const whole = Promise.all(made).then(() => 'made', (error) => error.message);
  const answer = await Promise.race([whole, late, device.lost.then(() => 'lost')]);
  if (answer !== 'late') device.destroy();
  return answer;
}"""
FREEZING = (
    "conv2d:f32:b1h17w19c5o7kh3kw3stride2pad1",
    "conv2d:f32:b1h224w224c3o64kh7kw7stride2pad3",
    "conv2d:f32:b1h14w14c16o16kh3kw3stride1pad1",
    "conv2d:f32:b1h56w56c64o64kh3kw3stride1pad1",
)
LARGE = ("matmul:f32:m4096k4096n4096", "transpose:f32:m384n768", "softmax:f32:m4608n384")


def examples_of(operator: str) -> list[str]:
    """Without constants, which a kernel for a GPU does not ask for."""
    keys = [key for key in EXAMPLES if Workload.parse(key).operator.name == operator]
    return [key for key in keys if "constant" not in key][:2] or keys[:1]


KEYS = (*(key for operator in OPERATORS for key in examples_of(operator)), *FREEZING, *LARGE)


@pytest.fixture(scope="module")
def page() -> Iterator[Page]:
    flags = gpu_flags(GpuChoice.SOFTWARE)
    with launched_chromium(*flags) as browser, site({}) as address:
        made = browser.new_page()
        made.goto(address)
        yield made


def test_every_operator_has_a_kernel_here() -> None:
    assert {Workload.parse(key).operator.name for key in KEYS} == set(OPERATORS)


GPUS = pytest.mark.parametrize(
    "gpu", [gpu_model("google", "swiftshader"), ANY_GPU], ids=lambda g: g.name
)


@GPUS
@pytest.mark.parametrize("key", one_in(3, KEYS))
def test_a_default_kernel_becomes_a_pipeline_on_swiftshader(
    page: Page, key: str, gpu: GpuModel
) -> None:
    _becomes_a_pipeline(page, Workload.parse(key), gpu)


@GPUS
def test_attention_of_many_rows_becomes_a_pipeline_on_swiftshader(
    page: Page, gpu: GpuModel
) -> None:
    """Attention of RoBERTa: 12 heads of 64 among the columns of one product."""
    queries, keys, values = (HeadsOperand(place=0, columns=2304, first=768 * n) for n in range(3))
    given = ManyRowsAttention(
        heads=12,
        m=384,
        n=384,
        head_dim=64,
        width=64,
        queries=queries,
        keys=keys,
        values=values,
        epilogue=("scale", "mask"),
    )
    _becomes_a_pipeline(page, Workload.of_program("attention", attention(given)), gpu)


def _becomes_a_pipeline(page: Page, workload: Workload, gpu: GpuModel) -> None:
    artifact = compile_candidate(lite_space(workload, TargetKind.WEBGPU, gpu)[0])
    kernel = {
        "text": artifact.body.decode(),
        "entries": [dispatch.entry for dispatch in artifact.manifest.dispatches],
        "limitMs": LIMIT_MS,
    }
    answer = page.evaluate(CREATE, kernel)
    if answer is None:
        pytest.skip("this Chromium has no SwiftShader adapter for WebGPU")
    assert answer == "made"
