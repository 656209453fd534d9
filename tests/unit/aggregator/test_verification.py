"""Recomputed entries equal NumPy's, and what differs is rejected."""

import tracemalloc

import numpy as np
import pytest

from kernelzoo.domain.measurement import Verdict
from kernelzoo.domain.seeded import sampled_positions
from kernelzoo.domain.target import TargetKind
from kernelzoo.domain.workload import MAX_REDUCTION, Workload
from kernelzoo.numerics.entries import Floats, entries
from kernelzoo.numerics.operators import Indices
from services.aggregator.verification import expected, expected_entries, input_values, judge
from tests.unit.tuner.execution import NUMPY
from tests.unit.tuner.reference import EXAMPLES, reference

LONG = (
    "matmul:f32:m3k1500n30",
    "conv2d:f32:b1h8w8c150o2kh3kw3stride1pad1",
    "avg_pool2d:f32:b1h40w40c2kh33kw34stride1pad5",
    "max_pool2d:f32:b1h40w40c2kh33kw34stride1pad5",
    "softmax:f32:m70n1500",
    "row_mean:f32:m70n1500",
)
"""Longer than what is read at once for 64 entries."""


@pytest.mark.parametrize("key", [*EXAMPLES, *LONG])
def test_expected_entries_are_those_of_the_whole_output(key: str) -> None:
    workload = Workload.parse(key)
    inputs = [
        input_values(99, number, np.arange(tensor.elements), tensor).reshape(tensor.shape)
        for number, tensor in enumerate(workload.tensors[:-1])
    ]
    typed = [
        values.astype(NUMPY[tensor.dtype])
        for values, tensor in zip(inputs, workload.tensors, strict=False)
    ]
    whole = reference(workload, typed).ravel()
    positions = list(sampled_positions(99, workload.output.elements))
    np.testing.assert_allclose(
        expected_entries(workload, 99), whole[positions], rtol=1e-9, atol=1e-12
    )


def test_only_the_rows_that_are_asked_for_are_read() -> None:
    workload = Workload.parse("layer_norm:f32:m4096n8")
    asked: list[int] = []

    def read(tensor: int, index: Indices) -> Floats:
        asked.append(index.size)
        return input_values(1, tensor, index, workload.tensors[tensor])

    entries(workload.program, np.arange(3, dtype=np.int64), read)
    assert max(asked) == 3 * 8


@pytest.mark.parametrize(
    "key",
    [
        f"avg_pool2d:f32:b1h2052w2052c4kh2048kw{MAX_REDUCTION // 2048}stride1pad0",
        "avg_pool2d:f32:b1h520w520c4kh512kw512stride1pad0",
        "matmul:f32:m64k65536n64",
        "layer_norm:f32:m64n65536",
    ],
)
def test_the_longest_reductions_are_checked_in_few_megabytes(key: str) -> None:
    tracemalloc.start()
    found = expected(Workload.parse(key), TargetKind.WASM, 1)
    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak_bytes < 16 << 20
    checked = np.isfinite(found.tolerances)
    assert found.tolerances.shape == (64,)
    assert checked.sum() == min(64, 64 * (1 << 18) // Workload.parse(key).reduction_length)
    assert np.isfinite(found.entries).all()


WORKLOAD = Workload.parse("matmul:f32:m5k7n3")
EXPECTED = expected(WORKLOAD, TargetKind.WASM, 1)
RIGHT = tuple(EXPECTED.entries.tolist())


def verdict(entries: tuple[float, ...]) -> Verdict:
    return judge(entries, EXPECTED).verdict


def test_right_entries_are_verified() -> None:
    assert verdict(RIGHT) is Verdict.VERIFIED


@pytest.mark.parametrize(
    "entries",
    [
        (*RIGHT[:-1], RIGHT[-1] + 1e-3),
        (*RIGHT[:-1], float("nan")),
        (*RIGHT[:-1], float("inf")),
        RIGHT[:-1],
        (),
    ],
)
def test_other_entries_are_rejected(entries: tuple[float, ...]) -> None:
    assert verdict(entries) is Verdict.REJECTED


def test_entries_of_another_seed_are_rejected() -> None:
    assert verdict(tuple(expected_entries(WORKLOAD, 2).tolist())) is Verdict.REJECTED
