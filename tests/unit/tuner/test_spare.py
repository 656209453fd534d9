"""One kernel is right for each number of parts that are left out of its output."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelzoo.domain.candidate import Candidate
from kernelzoo.domain.operators.attention import HeadsOperand, ManyRowsAttention, attention
from kernelzoo.domain.operators.parsing import parsed
from kernelzoo.domain.seeded import sampled_positions
from kernelzoo.domain.target import TargetKind
from kernelzoo.domain.workload import Workload
from kernelzoo.numerics.stages import run_program
from services.aggregator.verification import TAKEN_AS_TOLD, expected, input_values, judge
from services.tuner.compile import compile_candidate
from services.tuner.schedules.registry import lite_space
from tests.examples import examples
from tests.unit.tuner.execution import NUMPY, execute, inputs_of, packed_inputs
from tests.unit.tuner.javascript_execution import Run, executed

LONGEST = 52
TOLERANCE = 2e-5
"""Values are below 10, and sums have few terms."""
NAMED = (
    f"matmul+bias+gelu:f32:m{LONGEST}k20n48:constant=b:spare={LONGEST}",
    f"matmul+residual:f32:m{LONGEST}k36n150:constant=b:spare={LONGEST}",
    f"matmul:f32:m{LONGEST}k20n64:spare={LONGEST}",
    f"batch_matmul:f32:b{LONGEST}m5k7n9:spare={LONGEST}",
    f"layer_norm:f32:m{LONGEST}n24:spare={LONGEST}",
    f"softmax:f32:m{LONGEST}n19:spare={LONGEST}",
    f"add:f32:n{12 * LONGEST}:spare={LONGEST}",
)
TABLE = f"""x0: f32[9, 24]
x1: i32[{LONGEST}]
x2: i32[1]
s0[i0: {LONGEST}, i1: 24] = x0[x1[i0], i1] * 2.0
spare x2: {LONGEST}"""

BLOCKS = {
    "tanh": f"""x0: f32[3, {LONGEST}, 24]
x1: i32[1]
s0[i0: 3, i1: {LONGEST}, i2: 24] = tanh(x0[i0, i1, i2])
spare x1: {LONGEST} in each of 3""",
    "turned": f"""x0: f32[{LONGEST}, 3, 24]
x1: i32[1]
s0[i0: 3, i1: {LONGEST}, i2: 24] = x0[i1, i0, i2]
spare x1: {LONGEST} in each of 3""",
    "products": f"""x0: f32[3, {LONGEST}, 20]
x1: f32[3, 20, 40]
x2: i32[1]
s0[i0: 3, i1: {LONGEST}, i2: 40] = sum over i3: 20 of x0[i0, i1, i3] * x1[i0, i3, i2]
spare x2: {LONGEST} in each of 3""",
    "columns": f"""x0: f32[3, 7, {LONGEST}]
x1: i32[1]
s0[i0: 3, i1: 7, i2: {LONGEST}] = x0[i0, i1, i2] * 2.0
spare x1: {LONGEST} in each of 21""",
}
"""The first parts of each block are there."""

MOST = f"""x0: f32[{LONGEST}, 24]
x1: i32[1]
s0[i0: 24] = max over i1: {LONGEST} of (x0[i1, i0] if i1 + x1[0] < {LONGEST} else -inf)"""


def heads(*epilogue: str, rows: bool = True, width: int = 8, shared: int = 1) -> Workload:
    """Attention of three heads whose queries, keys and values one product has made, and which may
    share the latter."""
    columns = 48 + 3 * width
    queries = HeadsOperand(place=0, columns=columns)
    keys, values = (
        HeadsOperand(place=0, columns=columns, first=first, shared=shared) for first in (24, 48)
    )
    made = ManyRowsAttention(
        heads=3,
        m=LONGEST,
        n=LONGEST,
        head_dim=8,
        width=width,
        queries=queries,
        keys=keys,
        values=values,
        epilogue=epilogue,
        spare_keys=True,
        spare_rows=rows,
    )
    return Workload.of_program("attention", attention(made))


WORKLOADS = (
    *map(Workload.parse, NAMED),
    Workload.of_program("gather_mul", parsed(TABLE)),
    heads(),
    heads("scale", "bias"),
    heads("scale", "mask"),
    heads("mask", width=5),
    heads("scale", shared=3),
    *(Workload.of_program(name, parsed(text)) for name, text in BLOCKS.items()),
)


REDUCED = (
    Workload.of_program("row_max", parsed(MOST)),
    heads("scale", "bias", rows=False),
)
"""Something else than their output is bounded."""


def borders(candidate: Candidate) -> tuple[int, ...]:
    """Extents where tiles and blocks of a candidate end."""
    config = dict(candidate.config)
    sizes = {int(config.get(name, 4)) for name in ("tile_m", "block_m", "tile_n", "vectors")}
    near = {1, *(size + by for size in sizes for by in (-1, 0, 1)), LONGEST - 1, LONGEST}
    return tuple(sorted(each for each in near if 1 <= each <= LONGEST))


def told(workload: Workload, extent: int) -> tuple[list[Any], Any]:
    """Draws inputs whose entries beyond the extent are no numbers, and computes what is right of
    the output."""
    inputs = inputs_of(workload)
    inputs[-1][...] = LONGEST - extent
    right = _parts(run_program(workload.program, inputs), workload.output.shape)[:extent]
    right = right.reshape(extent, -1)
    for entries in inputs[:-1]:
        if entries.size % LONGEST == 0 and entries.dtype == np.float32:
            _parts(entries, entries.shape)[extent:] = np.nan
    return inputs, right


def checked(candidate: Candidate, extent: int) -> None:
    """Checks that what lies beyond the extent of inputs, no number, reaches nothing before it."""
    workload = candidate.workload
    inputs, right = told(workload, extent)
    artifact = compile_candidate(candidate)
    made = execute(artifact, packed_inputs(candidate, artifact, inputs))
    parts = _parts(made, workload.output.shape)
    assert np.abs(parts[:extent].reshape(extent, -1) - right).max() <= TOLERANCE
    if extent == 1 and workload.operator.name != "add" and workload.output.shape[-1] != LONGEST:
        # All of such a small sum is one slice, and a row of parts one loop of vectors; of others
        # the last part is left out.
        assert np.isnan(parts[-1]).all()


def _parts(entries: Any, shape: tuple[int, ...]) -> Any:
    """A view of entries by part."""
    if LONGEST not in shape:
        return entries.reshape(LONGEST, -1)
    return np.moveaxis(entries.reshape(shape), shape.index(LONGEST), 0)


@given(
    workload=st.sampled_from(WORKLOADS),
    place=st.integers(0, 1 << 20),
    border=st.integers(0, 1 << 20),
)
@settings(max_examples=examples(120), deadline=None, derandomize=True)
def test_rows_before_what_is_spare_are_right_at_the_borders_of_tiles(
    workload: Workload, place: int, border: int
) -> None:
    space = lite_space(workload, TargetKind.WASM)
    candidate = space[place % len(space)]
    extents = borders(candidate)
    checked(candidate, extents[border % len(extents)])


@pytest.mark.parametrize("extent", [1, 7, LONGEST])
def test_kernels_in_javascript_leave_out_what_is_spare(extent: int, tmp_path: Path) -> None:
    runs, rights = {}, {}
    shapes = {each.key: each.output.shape for each in WORKLOADS}
    for workload in WORKLOADS:
        (candidate,) = lite_space(workload, TargetKind.JAVASCRIPT)
        inputs, rights[workload.key] = told(workload, extent)
        runs[workload.key] = Run(artifact=compile_candidate(candidate), inputs=inputs)
    for key, made in executed(runs, tmp_path).items():
        parts = _parts(made, shapes[key])
        own = parts[:extent].reshape(extent, -1)
        assert np.abs(own - rights[key]).max() <= TOLERANCE, key


@pytest.mark.parametrize(
    "workload", [*WORKLOADS, *REDUCED], ids=lambda each: each.key if each.spare_parts else each.name
)
def test_agents_measure_all_that_there_may_be_and_their_outputs_are_verified(
    workload: Workload,
) -> None:
    """A report has entries of all of the output, spare ones as well."""
    tensors = workload.tensors
    assert tensors[-2].limit == 1
    seed = 5
    inputs = [
        input_values(seed, number, np.arange(tensor.elements), tensor)
        .reshape(tensor.shape)
        .astype(NUMPY[tensor.dtype])
        for number, tensor in enumerate(tensors[:-1])
    ]
    candidate = lite_space(workload, TargetKind.WASM)[0]
    artifact = compile_candidate(candidate)
    made = execute(artifact, packed_inputs(candidate, artifact, inputs)).reshape(-1)
    entries = made[list(sampled_positions(seed, tensors[-1].elements))]
    right = expected(workload, TargetKind.WASM, seed)
    assert np.isfinite(right.tolerances).any()
    assert judge(entries.tolist(), right) == TAKEN_AS_TOLD
    assert judge((entries + 1).tolist(), right) != TAKEN_AS_TOLD


def test_kernels_of_a_gpu_are_told_what_is_spare_and_compute_all() -> None:
    for workload in WORKLOADS:
        candidate = lite_space(workload, TargetKind.WEBGPU)[0]
        made = compile_candidate(candidate)
        assert [each.name for each in made.manifest.tensors] == [t.name for t in workload.tensors]
