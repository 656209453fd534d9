"""Operators are defined in tensor expressions that name what exists, once, and as values."""

import pytest

from kernelzoo.domain.operators import OPERATORS, Operator
from kernelzoo.domain.operators.binding import bound
from kernelzoo.domain.operators.expressions import (
    Axis,
    Cast,
    Choice,
    Extent,
    Integer,
    Program,
    Read,
    Real,
    Stage,
    largest,
    parts,
    read,
)
from kernelzoo.domain.workload import Workload
from tests.unit.tuner.reference import EXAMPLES


@pytest.mark.parametrize("operator", OPERATORS.values(), ids=list(OPERATORS))
def test_a_definition_reads_inputs_and_earlier_stages_along_all_their_axes(
    operator: Operator,
) -> None:
    ranks = {name: len(axes) for name, axes in operator.inputs}
    for stage in operator.stages:
        used = list(parts(stage.value))
        assert {each for each in used if isinstance(each, Axis)} <= {*stage.axes, *stage.over}
        reads = [each for each in used if isinstance(each, Read)]
        assert all(len(each.at) == ranks[each.tensor] for each in reads)
        ranks[stage.name] = len(stage.axes)
    assert len(ranks) == len(operator.inputs) + len(operator.stages)


@pytest.mark.parametrize("operator", OPERATORS.values(), ids=list(OPERATORS))
def test_every_input_and_every_stage_is_read(operator: Operator) -> None:
    used = [part for stage in operator.stages for part in parts(stage.value)]
    made = [name for name, _ in operator.inputs] + [stage.name for stage in operator.stages[:-1]]
    assert {each.tensor for each in used if isinstance(each, Read)} == set(made)


def test_a_program_is_its_text() -> None:
    softmax = Workload.parse("softmax:f32:m5n37").program
    assert str(softmax) == (
        "a: f32[5, 37]\n"
        "largest[i: 5] = max over k: 37 of a[i, k]\n"
        "power[i: 5, j: 37] = exp(a[i, j] - largest[i])\n"
        "total[i: 5] = sum over k: 37 of power[i, k]\n"
        "c[i: 5, j: 37] = power[i, j] / total[i]"
    )


def test_different_programs_have_different_texts_and_equal_ones_one() -> None:
    workloads = [Workload.parse(key) for key in EXAMPLES]
    # What is constant is no part of what is computed.
    programs = {(each.operator.name, each.extents, each.epilogue): each for each in workloads}
    texts = {str(each.program) for each in programs.values()}
    assert len(texts) == len(programs)
    assert str(Workload.parse(EXAMPLES[0]).program) == str(workloads[0].program)


def test_brackets_keep_what_is_computed_first() -> None:
    i = Axis("i", Integer(9))
    a, b = read("a", i), read("b", i)
    assert str((a - b) - (a - b)) == "a[i] - b[i] - (a[i] - b[i])"
    assert str((a + b) * a / (a * b)) == "(a[i] + b[i]) * a[i] / (a[i] * b[i])"


def test_a_convolution_without_padding_has_no_padded_image() -> None:
    padded, plain = (
        Workload.parse(f"conv2d:f32:b1h9w7c3o5kh3kw3stride1pad{pad}").program for pad in (1, 0)
    )
    assert [stage.name for stage in padded.stages] == ["padded", "c"]
    assert [stage.name for stage in plain.stages] == ["c"]
    assert "a[i, y + r, x + q, c]" in str(plain)


def test_a_condition_that_does_not_always_hold_stays() -> None:
    n = Extent("n")
    i = Axis("i", n)
    for limit, kept in ((n - 1, True), (n, False), (n + 1, False)):
        value = Choice((i < limit,), read("a", i), Real(0.0))
        stage = Stage(name="c", axes=(i,), value=value)
        (made,) = bound(Program(inputs=(), stages=(stage,)), {"n": 7}).stages
        assert isinstance(made.value, Choice) is kept


def test_constants_of_extents_are_folded() -> None:
    n = Extent("n")
    i = Axis("i", n * 2)
    stage = Stage(name="c", axes=(i,), value=largest(read("a", i % n), Real(1.0) / Cast(n)))
    (made,) = bound(Program(inputs=(), stages=(stage,)), {"n": 4}).stages
    assert str(made) == "c[i: 8] = max(a[i % 4], 0.25)"


def test_an_extent_without_a_number_is_an_error() -> None:
    stage = Stage(name="c", axes=(Axis("i", Extent("n")),), value=Real(0.0))
    with pytest.raises(KeyError, match="n"):
        bound(Program(inputs=(), stages=(stage,)), {"m": 4})
