"""Runs WGSL kernels on Mesa's llvmpipe, through wgpu and naga, as a page runs them."""

import os
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kernelzoo.domain.artifact import Artifact
from kernelzoo.domain.workload import Role
from tests.unit.tuner.execution import NUMPY, Floats, Values

LLVMPIPE = sorted(Path("/usr/share/vulkan/icd.d").glob("lvp_icd*.json"))
SLICE_STEP_BYTES = 256
"""A dynamic offset of a uniform is a multiple of this."""

UNKNOWN_TO_NAGA = "enable subgroups;\n"
"""naga 27 has subgroups without asking, and refuses to be asked."""

Device = Any  # wgpu's types are not checked strictly.


@lru_cache(maxsize=1)
def device() -> Device:
    """Skips the test where there is no adapter at all."""
    if LLVMPIPE:
        os.environ["VK_DRIVER_FILES"] = str(LLVMPIPE[0])
    import wgpu

    try:
        adapter = wgpu.gpu.request_adapter_sync(power_preference="low-power")
    except RuntimeError as error:
        pytest.skip(f"no GPU adapter, not even llvmpipe (mesa-vulkan-drivers): {error}")
    wanted = {"shader-f16", "subgroup"} & set(adapter.features)
    limits = {
        name: adapter.limits[name]
        for name in (
            "max-compute-workgroup-storage-size",
            "max-compute-invocations-per-workgroup",
            "max-compute-workgroup-size-x",
            "max-storage-buffer-binding-size",
        )
    }
    return adapter.request_device_sync(required_features=sorted(wanted), required_limits=limits)


def padded(size_bytes: int) -> int:
    return -(-size_bytes // 16) * 16


def execute_gpu(artifact: Artifact, inputs: list[Floats], slices: int = 1) -> Floats:
    """The output, one of f16 as f32, each dispatch in so many slices; output and scratch start as
    NaN."""
    output: Any = execute_on_gpu(artifact, inputs, slices)
    converted: Floats = output if output.dtype != np.float16 else output.astype(np.float32)
    return converted


def execute_on_gpu(artifact: Artifact, inputs: Sequence[Values], slices: int = 1) -> Values:
    """Executes, and returns the dtype that the output has."""
    return executed(artifact, inputs, slices)[-1]


def executed(artifact: Artifact, inputs: Sequence[Values], slices: int = 1) -> list[Values]:
    """The states in their order, as they are after the call, then the output."""
    import wgpu

    manifest = artifact.manifest
    usage = wgpu.BufferUsage.STORAGE | wgpu.BufferUsage.COPY_SRC | wgpu.BufferUsage.COPY_DST
    buffers = []
    sizes = [tensor.size_bytes for tensor in manifest.tensors]
    sizes += [manifest.scratch_bytes] if manifest.scratch_bytes else []
    for number, size in enumerate(sizes):
        data = np.full(padded(size), 0xFF, np.uint8)
        if number < len(inputs):
            data[:size] = inputs[number].ravel().view(np.uint8)
        buffers.append(device().create_buffer_with_data(data=data, usage=usage))
    _run(artifact, buffers, slices)
    assert manifest.tensors[-1].role is Role.OUTPUT
    found: list[Values] = []
    for tensor, buffer in zip(manifest.tensors, buffers, strict=False):
        if tensor.role is not Role.INPUT:
            held = np.frombuffer(device().queue.read_buffer(buffer), NUMPY[tensor.dtype])
            found.append(held[: tensor.elements].reshape(tensor.shape))
    return found


def _run(artifact: Artifact, buffers: list[Device], slices: int) -> None:
    import wgpu

    gpu = device()
    kinds = [
        "read-only-storage" if tensor.role is Role.INPUT else "storage"
        for tensor in artifact.manifest.tensors
    ] + ["storage"]
    entries = [
        {"binding": at, "visibility": wgpu.ShaderStage.COMPUTE, "buffer": {"type": kinds[at]}}
        for at in range(len(buffers))
    ]
    first = {"type": "uniform", "has_dynamic_offset": True}
    layouts = [
        gpu.create_bind_group_layout(entries=entries),
        gpu.create_bind_group_layout(
            entries=[{"binding": 0, "visibility": wgpu.ShaderStage.COMPUTE, "buffer": first}]
        ),
    ]
    layout = gpu.create_pipeline_layout(bind_group_layouts=layouts)
    module = gpu.create_shader_module(code=artifact.body.decode().replace(UNKNOWN_TO_NAGA, ""))
    tensors = gpu.create_bind_group(
        layout=layouts[0],
        entries=[
            {"binding": at, "resource": {"buffer": buffer}} for at, buffer in enumerate(buffers)
        ],
    )
    encoder = gpu.create_command_encoder()
    kept = []
    for dispatch in artifact.manifest.dispatches:
        pipeline = gpu.create_compute_pipeline(
            layout=layout, compute={"module": module, "entry_point": dispatch.entry}
        )
        starts = [dispatch.workgroups * part // slices for part in range(slices + 1)]
        words = np.zeros(slices * SLICE_STEP_BYTES // 4, np.uint32)
        words[:: SLICE_STEP_BYTES // 4] = starts[:-1]
        uniform = gpu.create_buffer_with_data(data=words, usage=wgpu.BufferUsage.UNIFORM)
        group = gpu.create_bind_group(
            layout=layouts[1],
            entries=[{"binding": 0, "resource": {"buffer": uniform, "offset": 0, "size": 4}}],
        )
        kept.append((pipeline, group))
        run = encoder.begin_compute_pass()
        run.set_pipeline(pipeline)
        run.set_bind_group(0, tensors)
        for part in range(slices):
            if starts[part] < starts[part + 1]:
                run.set_bind_group(1, group, [part * SLICE_STEP_BYTES])
                run.dispatch_workgroups(starts[part + 1] - starts[part])
        run.end()
    gpu.queue.submit([encoder.finish()])
