"""Workload keys: one spelling for each workload, and a range for every number."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelzoo.domain.workload import MAX_EXTENT, Role, Workload
from kernelzoo.errors import InvalidInput

EXTENT = st.integers(min_value=1, max_value=MAX_EXTENT)
SMALL = st.integers(min_value=1, max_value=512)


@given(m=SMALL, k=SMALL, n=SMALL)
def test_a_key_reads_back_as_its_workload(m: int, k: int, n: int) -> None:
    workload = Workload.of("matmul", (m, k, n))
    assert Workload.parse(workload.key) == workload


@given(key=st.text(max_size=40))
def test_any_text_is_a_workload_or_an_invalid_input(key: str) -> None:
    try:
        workload = Workload.parse(key)
    except InvalidInput:
        return
    assert workload.key == key


def test_tensors_are_the_inputs_and_then_the_output() -> None:
    workload = Workload.parse("batch_matmul:f32:b12m384k64n32")
    described = [(t.name, t.role, t.shape) for t in workload.tensors]
    assert described == [
        ("a", Role.INPUT, (12, 384, 64)),
        ("b", Role.INPUT, (12, 64, 32)),
        ("c", Role.OUTPUT, (12, 384, 32)),
    ]
    assert workload.flops == 2 * 12 * 384 * 64 * 32
    assert workload.reduction_length == 64
    assert workload.output.size_bytes == 4 * 12 * 384 * 32


@pytest.mark.parametrize("extent", [0, -1, MAX_EXTENT + 1])
def test_an_extent_out_of_range_is_refused_with_the_range(extent: int) -> None:
    with pytest.raises(InvalidInput, match=f"k={extent} of matmul .* from 1 to {MAX_EXTENT}"):
        Workload.of("matmul", (4, extent, 4))
