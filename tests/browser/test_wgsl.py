"""One kernel of each family in Chromium's WebGPU, on SwiftShader: Tint takes the text, and the
output is right."""

import base64
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Page

from kernelzoo.domain.artifact import Artifact
from kernelzoo.domain.gpu import gpu_model
from kernelzoo.domain.target import TargetKind
from kernelzoo.domain.tolerance import comparison_tolerance
from kernelzoo.domain.workload import Workload
from kernelzoo.numerics.stages import run_program
from services.tuner.compile import compile_candidate
from services.tuner.schedules.registry import lite_space
from tests.browser.sites import site
from tests.unit.tuner.execution import NUMPY, Floats, inputs_of
from tests.unit.tuner.reference import reference
from tests.unit.tuner.test_ordered import drawn as drawn_for
from tests.unit.tuner.test_ordered import workload_of as ordered
from tests.unit.tuner.test_recurrence import lstm, right_values
from workers.fleet.chromium import launched_chromium

FLAGS = (
    "--enable-unsafe-webgpu",
    "--use-webgpu-adapter=swiftshader",
    "--enable-features=Vulkan",
)
RUN = """async ({ text, dispatches, inputs, output, scratch }) => {
  const adapter = await navigator.gpu?.requestAdapter();
  if (!adapter) return null;
  const { maxComputeWorkgroupStorageSize, maxComputeInvocationsPerWorkgroup } = adapter.limits;
  const device = await adapter.requestDevice({
    requiredFeatures: ['subgroups'].filter((name) => adapter.features.has(name)),
    requiredLimits: { maxComputeWorkgroupStorageSize, maxComputeInvocationsPerWorkgroup } });
  const U = GPUBufferUsage;
  const padded = (bytes) => Math.ceil(bytes / 16) * 16;
  const bytesOf = (text) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  const buffer = (bytes, usage) => device.createBuffer({ size: padded(bytes), usage });
  const buffers = inputs.map((text) => {
    const bytes = bytesOf(text);
    const made = buffer(bytes.length, U.STORAGE | U.COPY_DST);
    const whole = new Uint8Array(padded(bytes.length)).fill(0xff);
    whole.set(bytes);
    device.queue.writeBuffer(made, 0, whole);
    return made;
  });
  const result = buffer(output, U.STORAGE | U.COPY_SRC);
  buffers.push(result, ...(scratch ? [buffer(scratch, U.STORAGE)] : []));
  const type = (at) => at < inputs.length ? 'read-only-storage' : 'storage';
  const tensors = device.createBindGroupLayout({ entries: buffers.map((_, binding) =>
    ({ binding, visibility: GPUShaderStage.COMPUTE, buffer: { type: type(binding) } })) });
  const slice = device.createBindGroupLayout({ entries: [{ binding: 0,
    visibility: GPUShaderStage.COMPUTE, buffer: { type: 'uniform', hasDynamicOffset: true } }] });
  const layout = device.createPipelineLayout({ bindGroupLayouts: [tensors, slice] });
  const first = buffer(16, U.UNIFORM | U.COPY_DST);
  const groups = [
    device.createBindGroup({ layout: tensors, entries: buffers.map((buffer, binding) =>
      ({ binding, resource: { buffer } })) }),
    device.createBindGroup({ layout: slice, entries: [
      { binding: 0, resource: { buffer: first, size: 4 } }] })];
  const module = device.createShaderModule({ code: text });
  const encoder = device.createCommandEncoder();
  for (const [entryPoint, workgroups] of dispatches) {
    const pipeline = await device.createComputePipelineAsync({
      layout, compute: { module, entryPoint } });
    const pass = encoder.beginComputePass();
    pass.setPipeline(pipeline);
    pass.setBindGroup(0, groups[0]);
    pass.setBindGroup(1, groups[1], [0]);
    pass.dispatchWorkgroups(workgroups);
    pass.end();
  }
  const read = buffer(output, U.MAP_READ | U.COPY_DST);
  encoder.copyBufferToBuffer(result, 0, read, 0, padded(output));
  device.queue.submit([encoder.finish()]);
  await read.mapAsync(GPUMapMode.READ);
  const bytes = [...new Uint8Array(read.getMappedRange(0, padded(output)))];
  device.destroy();
  return bytes.slice(0, output);
}"""

KEYS = (
    "matmul+bias+gelu:f32:m35k18n66",
    "batch_matmul_nt:f32:b2m20k24n36",
    "matmul:f32:m1k64n40",
    "conv2d+bias+relu:f32:b1h8w8c4o8kh3kw3stride1pad1",
    "max_pool2d:f32:b1h8w8c4kh3kw3stride2pad1",
    "softmax:f32:m5n36",
    "layer_norm:f32:m4n64",
    "gelu:f32:n301",
    "concat:f32:m5n6k7",
    "transpose:f32:m20n36",
    "matmul+bias:f16:m35k18n66",
    "matmul:f16:m9k7n5",
    "softmax:f16:m5n36",
)
CACHED_KEY = "matmul:f32:m64k32n64"


@pytest.fixture(scope="module")
def page() -> Iterator[Page]:
    with launched_chromium(*FLAGS) as browser, site({}) as address:
        made = browser.new_page()
        made.goto(address)
        yield made


def in_page(page: Page, artifact: Artifact, inputs: list[Floats]) -> Floats:
    manifest = artifact.manifest
    held: Any = page.evaluate(
        RUN,
        {
            "text": artifact.body.decode(),
            "dispatches": [[d.entry, d.workgroups] for d in manifest.dispatches],
            "inputs": [base64.b64encode(array.tobytes()).decode() for array in inputs],
            "output": manifest.tensors[-1].size_bytes,
            "scratch": manifest.scratch_bytes,
        },
    )
    if held is None:
        pytest.skip("this Chromium has no SwiftShader adapter for WebGPU")
    output = manifest.tensors[-1]
    entries = np.array(held, np.uint8).view(NUMPY[output.dtype])
    return entries.astype(np.float32).reshape(output.shape)


@pytest.mark.parametrize("key", KEYS)
def test_a_kernel_of_each_family_is_right_in_a_page(page: Page, key: str) -> None:
    workload = Workload.parse(key)
    swiftshader = gpu_model("google", "swiftshader")
    artifact = compile_candidate(lite_space(workload, TargetKind.WEBGPU, swiftshader)[0])
    inputs = inputs_of(workload)
    error = np.abs(in_page(page, artifact, inputs) - reference(workload, inputs)).max()
    assert error <= comparison_tolerance(workload)


def test_the_default_of_any_gpu_shares_workgroup_memory_in_a_page(page: Page) -> None:
    workload = Workload.parse(CACHED_KEY)
    candidate = lite_space(workload, TargetKind.WEBGPU)[0]
    assert dict(candidate.config)["cache"] != "none"
    inputs = inputs_of(workload)
    output = in_page(page, compile_candidate(candidate), inputs)
    assert np.abs(output - reference(workload, inputs)).max() <= comparison_tolerance(workload)


def test_threads_share_sums_and_blocks_in_a_page(page: Page) -> None:
    workload = Workload.parse(CACHED_KEY)
    space = lite_space(workload, TargetKind.WEBGPU, gpu_model("nvidia", ""))
    layered = next(
        each
        for each in space
        if dict(each.config)["cache"] != "none" and int(dict(each.config)["sliced_k"]) > 1
    )
    inputs = inputs_of(workload)
    output = in_page(page, compile_candidate(layered), inputs)
    assert np.abs(output - reference(workload, inputs)).max() <= comparison_tolerance(workload)


@pytest.mark.parametrize("cache", ["rows", "transposed"])
def test_words_are_multiplied_by_dot_products_of_bytes_in_a_page(page: Page, cache: str) -> None:
    workload = Workload.parse("matmul_u8i8+bias:f32:m40k64n72")
    candidate = next(
        each
        for each in lite_space(workload, TargetKind.WEBGPU)
        if each.family == "dot_matmul" and dict(each.config)["cache"] == cache
    )
    inputs = inputs_of(workload)
    output = in_page(page, compile_candidate(candidate), inputs)
    assert np.abs(output - reference(workload, inputs)).max() <= comparison_tolerance(workload)


@pytest.mark.parametrize(
    ("key", "settings"),
    [
        ("softmax:f32:m13n100", {}),
        # Fewer threads a row than a subgroup may have, and none of it waits at a barrier then.
        ("matmul_q4+bias:f32:m1k96n11", {"block_k": 0, "threads_per_row": 4}),
    ],
)
def test_rows_are_reduced_by_subgroups_in_a_page(
    page: Page, key: str, settings: dict[str, int]
) -> None:
    workload = Workload.parse(key)
    space = lite_space(workload, TargetKind.WEBGPU)
    candidate = next(
        each
        for each in space
        if each.requires == ("subgroups",) and settings.items() <= dict(each.config).items()
    )
    inputs = inputs_of(workload)
    output = in_page(page, compile_candidate(candidate), inputs)
    assert np.abs(output - reference(workload, inputs)).max() <= comparison_tolerance(workload)


@pytest.mark.parametrize(
    "form",
    ["sums along rows", "the largest of many", "the largest of few", "rows added", "a part of few"],
)
def test_values_are_taken_one_after_another_in_a_page(page: Page, form: str) -> None:
    workload = ordered(form)
    inputs = [np.nan_to_num(each) if each.dtype == np.float32 else each for each in drawn_for(form)]
    artifact = compile_candidate(lite_space(workload, TargetKind.WEBGPU)[0])
    wanted = run_program(workload.program, inputs)
    np.testing.assert_allclose(in_page(page, artifact, inputs), wanted, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize(("steps", "ways", "size"), [(60, 2, 12), (3, 1, 600)])
def test_a_workgroup_makes_all_steps_of_a_recurrence_in_a_page(
    page: Page, steps: int, ways: int, size: int
) -> None:
    """Some of a state of 600 lies in scratch memory."""
    workload = lstm(steps, ways, 2, size)
    swiftshader = gpu_model("google", "swiftshader")
    artifact = compile_candidate(lite_space(workload, TargetKind.WEBGPU, swiftshader)[0])
    assert bool(artifact.manifest.scratch_bytes) is (size == 600)
    inputs = inputs_of(workload)
    output = in_page(page, artifact, inputs)
    assert np.abs(output - right_values(workload, inputs)).max() <= 3e-6
