"""Weights in panels: the pack kernel, and the kernels that read what it makes."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelzoo.domain.tolerance import comparison_tolerance
from kernelzoo.domain.workload import Workload
from kernelzoo.errors import InvalidInput, InvalidSchedule
from services.tuner.compile import compile_candidate, compile_packing, pack_kernels
from services.tuner.schedules.base.wasm_config import Pack
from services.tuner.schedules.matmul.config import Outer
from tests.examples import examples
from tests.unit.tuner.candidates import schedule
from tests.unit.tuner.execution import Floats, execute, inputs_of, packed_inputs
from tests.unit.tuner.reference import reference

SIZES = st.one_of(st.integers(1, 70), st.sampled_from((1, 7, 13, 31, 61)))


def panels(b: Floats, width: int) -> Floats:
    """b[…, k, n] as […, ⌈n/width⌉, k, width], zeros behind n."""
    *outer, k, n = b.shape
    count = -(-n // width)
    padded = np.zeros((*outer, k, count * width), b.dtype)
    padded[..., :n] = b
    return np.moveaxis(padded.reshape(*outer, k, count, width), -2, -3)


OPERATORS = ("matmul", "matmul_nt", "matmul_tn+bias+relu", "batch_matmul_nt", "matmul_nt_i8+scales")


@given(
    operator=st.sampled_from(OPERATORS),
    extents=st.tuples(SIZES, SIZES, SIZES),
    tile=st.sampled_from(((4, 8), (3, 12), (2, 16), (5, 8))),
    unroll_k=st.sampled_from((1, 2, 4)),
    outer=st.sampled_from((Outer.ROWS, Outer.COLUMNS)),
)
@settings(max_examples=examples(60), deadline=None, derandomize=True)
def test_kernels_that_read_panels_are_right(
    operator: str,
    extents: tuple[int, int, int],
    tile: tuple[int, int],
    unroll_k: int,
    outer: Outer,
) -> None:
    batch = (3,) if operator.startswith("batch") else ()
    workload = Workload.of(operator, (*batch, *extents), constant=("b",))
    candidate = schedule(workload, tile, unroll_k=unroll_k, pack=Pack.PREPACKED, outer=outer)
    artifact = compile_candidate(candidate)
    inputs = inputs_of(workload)
    given = packed_inputs(candidate, artifact, inputs)
    plain = np.swapaxes(inputs[1], -1, -2) if "nt" in operator else inputs[1]
    assert np.array_equal(given[1], panels(plain, tile[1]))
    error = np.abs(execute(artifact, given) - reference(workload, inputs)).max()
    assert error <= comparison_tolerance(workload)


def test_the_manifest_names_the_layout_its_shape_and_its_pack_kernel() -> None:
    workload = Workload.parse("matmul:f32:m8k16n20:constant=b")
    candidate = schedule(workload, (4, 8), pack=Pack.PREPACKED)
    manifest = compile_candidate(candidate).manifest
    (layout,) = manifest.layouts
    assert (layout.tensor, layout.layout) == ("b", "panels8")
    assert manifest.tensors[1].shape == (3, 16, 8)
    assert manifest.scratch_bytes == 0
    (pack,) = pack_kernels(candidate, manifest)
    assert (pack.sha256, len(pack.body)) == (layout.pack.sha256, layout.pack.size_bytes)
    assert pack.manifest == layout.pack.manifest
    assert [tensor.shape for tensor in pack.manifest.tensors] == [(16, 20), (3, 16, 8)]
    assert pack.manifest.range_extent == 3
    plain = schedule(workload, (4, 8))
    assert compile_candidate(plain).manifest.layouts == ()
    assert pack_kernels(plain, compile_candidate(plain).manifest) == ()


def test_one_kernel_reads_what_two_pack_kernels_make() -> None:
    """Its bytes do not say which: that is why a manifest belongs to a candidate."""
    keys = ("matmul:f32:m8k16n20:constant=b", "matmul_nt:f32:m8k16n20:constant=b")
    plain, turned = (
        compile_candidate(schedule(Workload.parse(key), (4, 8), pack=Pack.PREPACKED))
        for key in keys
    )
    assert plain.sha256 == turned.sha256
    assert plain.manifest.layouts[0].pack.sha256 != turned.manifest.layouts[0].pack.sha256


def test_an_input_that_may_change_is_never_wanted_packed() -> None:
    candidate = schedule(Workload.parse("matmul:f32:m8k16n20"), (4, 8), pack=Pack.PREPACKED)
    with pytest.raises(InvalidSchedule, match="pack=prepacked needs constant=b in the key"):
        compile_candidate(candidate)


@pytest.mark.parametrize(
    "layout", ["", "panels", "panels0", "panels6", "panels08", "rows8", "winograd6"]
)
def test_a_layout_that_is_none_is_refused(layout: str) -> None:
    with pytest.raises(InvalidInput, match="is unknown; use panels4"):
        compile_packing(Workload.parse("matmul:f32:m8k16n20"), layout)
