"""Weights in panels: the pack kernel, and the kernels that read what it makes."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelzoo.domain.artifact import Artifact, Layout
from kernelzoo.domain.seeded import comparison_tolerance
from kernelzoo.domain.workload import Workload
from kernelzoo.errors import InvalidInput
from services.tuner.compile import compile_candidate, compile_packing
from services.tuner.config import Outer, Pack
from tests.unit.tuner.candidates import schedule
from tests.unit.tuner.execution import Floats, execute, inputs_of
from tests.unit.tuner.reference import reference

SIZES = st.one_of(st.integers(1, 70), st.sampled_from((1, 7, 13, 31, 61)))


def panels(b: Floats, width: int) -> Floats:
    """b[…, k, n] as […, ⌈n/width⌉, k, width], zeros behind n."""
    *outer, k, n = b.shape
    count = -(-n // width)
    padded = np.zeros((*outer, k, count * width), np.float32)
    padded[..., :n] = b
    return np.moveaxis(padded.reshape(*outer, k, count, width), -2, -3)


def packed(workload: Workload, artifact: Artifact, b: Floats) -> Floats:
    (layout,) = artifact.manifest.layouts
    return execute(compile_packing(workload, layout.layout), [b])


@given(
    operator=st.sampled_from(("matmul", "matmul_nt", "matmul_tn+bias+relu", "batch_matmul_nt")),
    extents=st.tuples(SIZES, SIZES, SIZES),
    tile=st.sampled_from(((4, 8), (3, 12), (2, 16), (5, 8))),
    unroll_k=st.sampled_from((1, 2, 4)),
    outer=st.sampled_from((Outer.ROWS, Outer.COLUMNS)),
)
@settings(max_examples=60, deadline=None, derandomize=True)
def test_kernels_that_read_panels_are_right(
    operator: str,
    extents: tuple[int, int, int],
    tile: tuple[int, int],
    unroll_k: int,
    outer: Outer,
) -> None:
    batch = (3,) if operator.startswith("batch") else ()
    workload = Workload.of(operator, (*batch, *extents))
    candidate = schedule(workload, tile, unroll_k=unroll_k, pack=Pack.BEFORE, outer=outer)
    artifact = compile_candidate(candidate)
    a, b, *rest = inputs_of(workload)
    plain = np.swapaxes(b, -1, -2) if "nt" in operator else b
    made = packed(workload, artifact, b)
    assert np.array_equal(made, panels(plain, tile[1]))
    error = np.abs(execute(artifact, [a, made, *rest]) - reference(workload, [a, b, *rest])).max()
    assert error <= comparison_tolerance(workload)


def test_the_manifest_names_the_layout_and_its_shape() -> None:
    workload = Workload.parse("matmul:f32:m8k16n20")
    manifest = compile_candidate(schedule(workload, (4, 8), pack=Pack.BEFORE)).manifest
    assert manifest.layouts == (Layout(tensor="b", layout="panels8"),)
    assert manifest.tensors[1].shape == (3, 16, 8)
    assert manifest.scratch_bytes == 0
    pack = compile_packing(workload, "panels8").manifest
    assert [tensor.shape for tensor in pack.tensors] == [(16, 20), (3, 16, 8)]
    assert pack.range_extent == 3
    assert compile_candidate(schedule(workload, (4, 8))).manifest.layouts == ()


@pytest.mark.parametrize("layout", ["", "panels", "panels0", "panels6", "panels08", "rows8"])
def test_a_layout_that_is_none_is_refused(layout: str) -> None:
    with pytest.raises(InvalidInput, match="is unknown; use panels4"):
        compile_packing(Workload.parse("matmul:f32:m8k16n20"), layout)
