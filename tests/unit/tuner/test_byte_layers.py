"""Layers from bytes to bytes in WebAssembly, to the bit, and on the other targets."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from fixtures.wasm_space import common_space
from kernelzoo.domain.target import TargetKind
from kernelzoo.domain.workload import Workload
from services.tuner.schedules.registry import lite_space
from tests.examples import examples
from tests.unit.tuner.execution import execute, inputs_of, packed_inputs
from tests.unit.tuner.reference import unpacked
from tests.unit.tuner.wasm_checks import legal

Ints = NDArray[np.int64]


def drawn(workload: Workload, seed: int) -> dict[str, Any]:
    """Inputs whose outputs are all bytes from 0 to 255, and some beyond."""
    random = np.random.default_rng(seed)
    inputs = dict(zip((each.name for each in workload.tensors), inputs_of(workload), strict=False))
    inputs["a"] = random.integers(0, 256, (*inputs["a"].shape, 4)).astype(np.uint8).view(np.int32)
    inputs["a"] = inputs["a"].reshape(-1)
    inputs["b"] = random.integers(-128, 128, inputs["b"].shape).astype(np.int8)
    inputs["a_zero"] = random.integers(0, 256, 1).astype(np.int32)
    inputs["start"] = random.integers(0, 256, 1).astype(np.int32)
    inputs["step"] = random.uniform(5, 60, 1).astype(np.float32)
    return inputs


def requantised(total: Ints, given: dict[str, Any]) -> NDArray[np.uint8]:
    """The bytes of exact sums, in the arithmetic of kernels."""
    assert np.abs(total).max() < 1 << 31
    real = total.astype(np.float32) * (given["a_scale"] * given["b_scale"]) + given["bias"]
    steps = np.rint(real / given["step"]) + given["start"].astype(np.float32)
    return np.asarray(np.clip(steps, 0, 255).astype(np.uint8))


def ran(workload: Workload, given: dict[str, Any], number: int = 0) -> NDArray[np.uint8]:
    candidate = common_space(workload)[number]
    artifact = legal(candidate).artifact
    inputs = list(given.values())
    return execute(artifact, packed_inputs(candidate, artifact, inputs)).view(np.uint8)


@given(
    extents=st.tuples(st.integers(1, 30), st.integers(1, 20), st.integers(1, 12)),
    constant=st.sampled_from(((), ("b",))),
    data=st.data(),
)
@settings(max_examples=examples(40), deadline=None, derandomize=True)
def test_products_become_the_bytes_of_the_next_layer(
    extents: tuple[int, int, int], constant: tuple[str, ...], data: st.DataObject
) -> None:
    m, words, quads = extents
    workload = Workload.of("matmul_u8i8q", (m, 4 * words, 4 * quads), constant=constant)
    given = drawn(workload, m + words)
    given["b_sum"] = given["b"].sum(axis=1, dtype=np.int32)
    total = unpacked(given["a"].reshape(m, words), 8) @ given["b"].astype(np.int64).T
    total = total - given["a_zero"].astype(np.int64) * given["b_sum"]
    space = common_space(workload)
    found = ran(workload, given, data.draw(st.integers(0, len(space) - 1)))
    np.testing.assert_array_equal(found.reshape(m, -1), requantised(total, given))


def windows(workload: Workload, given: dict[str, Any]) -> Ints:
    """Sums over windows of what is less by the zero point, 0 outside of the image."""
    e = workload.extent
    a = unpacked(given["a"].reshape(-1, e["cw"]), 8).reshape(e["b"], e["h"], e["w"], e["c"])
    pad, stride = e["pad"], e["stride"]
    edges = ((0, 0), (pad, pad), (pad, pad), (0, 0))
    image = np.pad(a - given["a_zero"].astype(np.int64), edges)
    total = np.zeros((e["b"], e["y"], e["x"], e["c"]), np.int64)
    for r in range(e["kh"]):
        for q in range(e["kw"]):
            rows = image[:, r : r + (e["y"] - 1) * stride + 1 : stride]
            part = rows[:, :, q : q + (e["x"] - 1) * stride + 1 : stride]
            total += part * given["b"][r, q].astype(np.int64)
    return total


@given(
    blocks=st.integers(1, 3),
    side=st.tuples(st.integers(3, 11), st.integers(3, 11)),
    window=st.sampled_from(((3, 3), (5, 5), (2, 3), (1, 1))),
    stride=st.sampled_from((1, 2)),
    pad=st.sampled_from((0, 1)),
    data=st.data(),
)
@settings(max_examples=examples(30), deadline=None, derandomize=True)
def test_windows_of_each_channel_become_the_bytes_of_the_next_layer(
    blocks: int,
    side: tuple[int, int],
    window: tuple[int, int],
    stride: int,
    pad: int,
    data: st.DataObject,
) -> None:
    pad = min(pad, max(window) - 1)
    if min(side) + 2 * pad < max(window):
        return
    extents = (2, *side, 16 * blocks, *window, stride, pad)
    workload = Workload.of("depthwise_conv2d_u8i8q", extents)
    given = drawn(workload, blocks + side[0])
    space = common_space(workload)
    found = ran(workload, given, data.draw(st.integers(0, len(space) - 1)))
    wanted = requantised(windows(workload, given), given)
    np.testing.assert_array_equal(found.reshape(-1), wanted.reshape(-1))


@pytest.mark.parametrize(
    "key", ["matmul_u8i8q:f32:m9k32n16", "depthwise_conv2d_u8i8q:f32:b1h5w5c8kh3kw3stride1pad1"]
)
def test_every_target_has_kernels_of_layers_of_bytes(key: str) -> None:
    assert all(lite_space(Workload.parse(key), target) for target in TargetKind)
