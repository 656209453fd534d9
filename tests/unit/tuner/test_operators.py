"""Every operator compiled, by its family and as a plain program, against float64."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from fixtures.wasm_space import common_space
from kernelzoo.domain.operators import OPERATORS
from kernelzoo.domain.tolerance import comparison_tolerance
from kernelzoo.domain.workload import Workload
from services.tuner.compile import compilation, compile_candidate, compile_program
from services.tuner.ir.interpreter import interpret
from services.tuner.operators.lowering import stated
from services.tuner.passes.pipeline import ALL_PASSES
from tests.examples import examples, one_in
from tests.unit.tuner.execution import NUMPY, execute, inputs_of, packed_inputs, run_program
from tests.unit.tuner.reference import EXAMPLES, reference
from tests.unit.tuner.wasm_checks import legal

MIDDLE = 1 << 31
"""Half of what a WebAssembly memory has at the most."""


@pytest.mark.parametrize("key", one_in(3, EXAMPLES))
def test_points_of_the_space_compute_the_operator(key: str) -> None:
    workload = Workload.parse(key)
    space = common_space(workload)
    inputs = inputs_of(workload)
    wanted = reference(workload, inputs)
    for candidate in space[:: max(1, len(space) // 4)]:
        steps = legal(candidate)
        given = packed_inputs(candidate, steps.artifact, inputs)
        error = np.abs(execute(steps.artifact, given) - wanted).max()
        assert error <= comparison_tolerance(workload)


@pytest.mark.parametrize("key", one_in(3, EXAMPLES))
def test_addresses_from_two_gibibytes_on_are_like_all_others(key: str) -> None:
    """They are negative as integers with sign."""
    workload = Workload.parse(key)
    (first, *_) = common_space(workload)
    artifact = compile_candidate(first)
    given = packed_inputs(first, artifact, inputs_of(workload))
    bytes_ = sum(each.size_bytes for each in artifact.manifest.tensors)
    for start in (MIDDLE - bytes_, MIDDLE - bytes_ // 2, MIDDLE + 64):
        output = execute(artifact, given, start=start // 64 * 64)
        np.testing.assert_array_equal(output, execute(artifact, given))


@pytest.mark.parametrize("key", EXAMPLES)
def test_the_plain_definition_computes_the_operator(key: str) -> None:
    workload = Workload.parse(key)
    inputs = inputs_of(workload)
    made = compile_program(stated(workload), key)
    output = run_program(
        made,
        [array.ravel() for array in inputs],
        workload.output.elements,
        np.dtype(NUMPY[workload.output.dtype]).type,
    )
    error = np.abs(output - reference(workload, inputs).ravel()).max()
    assert error <= comparison_tolerance(workload)


@pytest.mark.parametrize(
    "name", ["relu", "relu6", "gelu", "gelu_tanh", "silu", "sigmoid", "tanh", "erf", "exp"]
)
def test_no_number_stays_none_in_four_lanes_and_in_one(name: str) -> None:
    workload = Workload.of(name, (7,))
    for candidate in common_space(workload)[:2]:
        output = execute(compile_candidate(candidate), [np.full(7, np.nan, np.float32)])
        assert np.isnan(output).all()


@pytest.mark.parametrize("columns", [5, 293])
def test_the_largest_of_a_row_is_none_wherever_a_number_is_missing(columns: int) -> None:
    x = np.random.default_rng(2).standard_normal((2 * columns, columns), np.float32)
    x[np.arange(columns), np.arange(columns)] = np.copysign(np.nan, (-1.0) ** np.arange(columns))
    workload = Workload.of("row_max", x.shape)
    for candidate in common_space(workload)[:2]:
        output = execute(compile_candidate(candidate), [x.ravel()])
        np.testing.assert_array_equal(output, x.max(axis=1))


def test_an_index_outside_of_a_table_takes_its_nearest_row() -> None:
    workload = Workload.parse("gather:f32:m6k5n4")
    table = np.arange(20, dtype=np.float32).reshape(5, 4)
    indices = np.array([2, -1, 5, 4, np.iinfo(np.int32).min, np.iinfo(np.int32).max], np.int32)
    for candidate in common_space(workload):
        output = execute(compile_candidate(candidate), [table, indices.view(np.float32)])
        assert np.array_equal(output.reshape(6, 4), table[[2, 0, 4, 4, 0, 4]])


def test_every_operator_has_an_example() -> None:
    assert {key.split(":")[0].split("+")[0] for key in EXAMPLES} == set(OPERATORS)


SIZES = st.one_of(st.integers(1, 70), st.sampled_from((1, 2, 3, 5, 7, 13, 31, 61, 67)))
EPILOGUES = st.lists(
    st.sampled_from(("bias", "relu", "gelu", "residual", "scale", "scales", "relu6", "gelu_tanh")),
    max_size=3,
    unique=True,
)


def assert_right(workload: Workload, data: st.DataObject) -> None:
    space = common_space(workload)
    candidate = space[data.draw(st.integers(0, len(space) - 1))]
    inputs = inputs_of(workload)
    artifact = compilation(candidate, ALL_PASSES).artifact
    output = execute(artifact, packed_inputs(candidate, artifact, inputs))
    assert np.abs(output - reference(workload, inputs)).max() <= comparison_tolerance(workload)


@given(
    operator=st.sampled_from(("matmul", "matmul_nt", "matmul_tn", "matmul_i8", "matmul_nt_i8")),
    extents=st.tuples(SIZES, SIZES, SIZES),
    epilogue=EPILOGUES,
    constant=st.sampled_from(((), ("b",))),
    data=st.data(),
)
@settings(max_examples=examples(100), deadline=None, derandomize=True)
def test_products_of_any_shape_with_any_epilogue_are_right(
    operator: str,
    extents: tuple[int, int, int],
    epilogue: list[str],
    constant: tuple[str, ...],
    data: st.DataObject,
) -> None:
    name = "+".join((operator, *epilogue))
    assert_right(Workload.of(name, extents, constant=constant), data)


@given(m=SIZES, k=SIZES, n=SIZES, data=st.data())
@settings(max_examples=examples(30), deadline=None, derandomize=True)
def test_rows_of_a_table_of_any_shape_are_gathered(
    m: int, k: int, n: int, data: st.DataObject
) -> None:
    assert_right(Workload.of("gather", (m, k, n)), data)


@given(
    image=st.tuples(st.integers(1, 3), st.integers(3, 20), st.integers(3, 20)),
    channels=st.tuples(st.integers(1, 9), st.integers(1, 20)),
    kernel=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    step=st.tuples(st.integers(1, 3), st.integers(0, 2)),
    epilogue=EPILOGUES,
    data=st.data(),
)
@settings(max_examples=examples(40), deadline=None, derandomize=True)
def test_convolutions_of_any_shape_are_right(
    image: tuple[int, ...],
    channels: tuple[int, ...],
    kernel: tuple[int, ...],
    step: tuple[int, ...],
    epilogue: list[str],
    data: st.DataObject,
) -> None:
    assume(step[1] < max(kernel))
    extents = (*image, *channels, *kernel, *step)
    assert_right(Workload.of("+".join(("conv2d", *epilogue)), extents), data)


@given(
    operator=st.sampled_from(("softmax", "layer_norm", "rms_norm")),
    m=SIZES,
    n=SIZES,
    data=st.data(),
)
@settings(max_examples=examples(50), deadline=None, derandomize=True)
def test_rows_of_any_length_are_right(operator: str, m: int, n: int, data: st.DataObject) -> None:
    assert_right(Workload.of(operator, (m, n)), data)


@pytest.mark.parametrize("key", one_in(3, EXAMPLES[:35:3]))
def test_the_interpreter_agrees_before_any_pass(key: str) -> None:
    workload = Workload.parse(key)
    candidate = common_space(workload)[0]
    steps = compilation(candidate, ALL_PASSES)
    program, inputs = steps.scheduled, inputs_of(workload)
    given = packed_inputs(candidate, steps.artifact, inputs)
    output = np.full(workload.output.elements, np.nan, np.float32)
    names = [buffer.name for buffer in program.parameters]
    arrays = dict(zip(names, [*(array.ravel() for array in given), output], strict=True))
    interpret(program, arrays, low=0, high=program.body.extent)
    error = np.abs(output - reference(workload, inputs).ravel()).max()
    assert error <= comparison_tolerance(workload)


@pytest.mark.parametrize("key", [key for key in EXAMPLES if ":n" not in key][::2])
def test_slices_compose_in_any_order(key: str) -> None:
    workload = Workload.parse(key)
    candidate = common_space(workload)[0]
    artifact = compilation(candidate, ALL_PASSES).artifact
    extent = artifact.manifest.range_extent
    inputs = packed_inputs(candidate, artifact, inputs_of(workload))
    halves = ((extent // 2, extent), (0, extent // 2))
    assert np.array_equal(execute(artifact, inputs, halves), execute(artifact, inputs))
