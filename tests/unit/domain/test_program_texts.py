"""A program is read back from its text, and one that means nothing is refused with a reason."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelzoo.domain.dtype import DType
from kernelzoo.domain.operators.checking import checked
from kernelzoo.domain.operators.expressions import (
    ORDERED,
    Axis,
    Binary,
    BinaryOp,
    Call,
    Cast,
    Choice,
    CompareOp,
    Comparison,
    Expression,
    Function,
    Input,
    Integer,
    Program,
    Read,
    Real,
    Reducer,
    Stage,
)
from kernelzoo.domain.operators.parsing import parsed
from kernelzoo.domain.workload import Workload
from kernelzoo.errors import InvalidInput
from tests.examples import examples
from tests.unit.tuner.reference import EXAMPLES

INPUTS = (Input("a", DType.F32, (3, 4)), Input("n", DType.I32, (3,)), Input("one", DType.F32, ()))
AXES = (Axis("i", Integer(3)), Axis("j", Integer(4)))
INTEGER_OPS = [BinaryOp.ADD, BinaryOp.SUB, BinaryOp.MUL, BinaryOp.MIN, BinaryOp.MAX]
REAL_OPS = [*INTEGER_OPS, BinaryOp.DIV, BinaryOp.POW]
FINITE = st.floats(width=32, allow_nan=False)


def conditions(
    integers: st.SearchStrategy[Expression], reals: st.SearchStrategy[Expression]
) -> st.SearchStrategy[tuple[Comparison, ...]]:
    ops = st.sampled_from(list(CompareOp))
    one = st.one_of(*(st.builds(Comparison, ops, side, side) for side in (integers, reals)))
    return st.lists(one, min_size=1, max_size=2).map(tuple)


def expressions(depth: int) -> tuple[st.SearchStrategy[Expression], st.SearchStrategy[Expression]]:
    """Integers and reals of at most so many levels."""
    integers: st.SearchStrategy[Expression] = st.one_of(
        st.sampled_from(AXES), st.integers(-9, 9).map(Integer)
    )
    reals: st.SearchStrategy[Expression] = st.one_of(
        FINITE.map(Real), st.just(Read("one", ())), st.just(Read("a", AXES))
    )
    for _ in range(depth):
        whole, real = integers, reals
        tests = conditions(whole, real)
        divisions = st.sampled_from([BinaryOp.FLOOR_DIV, BinaryOp.FLOOR_MOD])
        integers = st.one_of(
            whole,
            st.builds(Binary, st.sampled_from(INTEGER_OPS), whole, whole),
            st.builds(Binary, divisions, whole, st.integers(1, 9).map(Integer)),
            st.builds(Cast, real, st.just(DType.I32)),
            st.builds(Choice, tests, whole, whole),
            whole.map(lambda at: Read("n", (at,))),
        )
        reals = st.one_of(
            real,
            st.builds(Binary, st.sampled_from(REAL_OPS), real, real),
            st.builds(Call, st.sampled_from(list(Function)), real),
            st.builds(Cast, whole),
            st.builds(Choice, tests, real, real),
            st.tuples(whole, whole).map(lambda at: Read("a", at)),
        )
    return integers, reals


WHOLE, REALS = expressions(3)


@st.composite
def programs(draw: st.DrawFn) -> Program:
    i, j = AXES
    reducer = draw(st.sampled_from([None, *(each for each in Reducer if each not in ORDERED)]))
    first = (
        Stage("s", (i, j), draw(REALS))
        if reducer is None
        else Stage("s", (i,), draw(REALS), reducer, (j,))
    )
    last = Stage("c", (i, j), draw(WHOLE), dtype=DType.I32)
    return Program(INPUTS, (first, last))


@given(programs())
@settings(max_examples=examples(150), deadline=None)
def test_a_program_is_read_back_from_its_text(program: Program) -> None:
    assert parsed(str(checked(program))) == program
    normal = program.normalised()
    assert parsed(str(normal)) == normal == normal.normalised()


@pytest.mark.parametrize("key", EXAMPLES)
def test_what_a_named_operator_computes_is_a_program_of_the_language(key: str) -> None:
    program = Workload.parse(key).program
    assert parsed(str(checked(program))) == program


def test_equal_computations_under_other_names_have_one_normal_text() -> None:
    text = "{a}: f32[5, 3]\n{t}[{i}: 5] = sum over {k}: 3 of {a}[{i}, {k}]"
    one = parsed(text.format(a="a", t="total", i="i", k="k")).normalised()
    other = parsed(text.format(a="image", t="c", i="row", k="column")).normalised()
    assert str(one) == str(other) == "x0: f32[5, 3]\ns0[i0: 5] = sum over i1: 3 of x0[i0, i1]"


REFUSED = {
    "a: f32[3]": "has no stage",
    "a: f64[3]\nc[i: 3] = a[i]": "input a is of dtype 'f64'",
    "a: f32[0]\nc[i: 3] = 1.0": "input a is empty",
    "a: f32[3]\nc[i: 3] = b[i]": "'b' is no input",
    "a: f32[3]\nc[i: 3] = a[i, i]": "a has 1 axes and is read at 2",
    "a: f32[3]\nc[i: 3] = a[a[i]]": "an index of a is of f32",
    "a: f32[3]\nc[i: 3] = a[i] + 1": "+ is of f32 and i32",
    "a: f32[3]\nc[i: 3] = a[i] % 2.0": "% is of real numbers",
    "a: i32[3]\nc[i: 3]: i32 = a[i] / 2": "/ is of integers",
    "a: f32[3]\nc[i: 3] = quotient(a[i], 2.0)": "quotient is of real numbers",
    "a: f32[3]\nc[i: 3] = bit_xor(a[i], 2.0)": "only integers have bits",
    "a: i32[3]\nc[i: 3] = a[i]": "its value is of i32",
    "a: f32[3]\nc[i: 3] = exp(i)": "argument of exp is of i32",
    "a: f32[3]\nc[i: 3] = (a[i] if i < 2.0 else 0.0)": "compares i32 and f32",
    "a: f32[3]\nc[i: 3] = (a[i] if 0 < i < 2 else 0.0)": "no comparison",
    "a: f32[3]\na[i: 3] = 1.0": "'a' names two things",
    "a: f32[3]\nexp[i: 3] = 1.0": "'exp' is no name",
    "a: f32[3]\nc[i: 0] = 1.0": "extent of axis i",
    "a: f32[3]\nc[i: 3] = sum over  of a[i]": "belong together",
    "a: f32[3]\nc[i: 3] = a [i]": "not written as it is printed",
    "a: f32[3]\nc[i: 3] = __import__('os').system('true')": "no expression of the language",
    "a: f32[3]\nc[i: 3] = " + "(" * 5000: "line 2 of the program: it is no expression",
    "a: f32[3]\nc[i: 3] = " + "exp(" * 120 + "a[i]" + ")" * 120: "deep",
    "a: f32[3]\nc[i: 3] = " + "+".join(["a[i]"] * 9000): "line 2 of the program",
    "a: f32[3]\nc[i: 3] = a[99999999999]": "no number of 32 bits",
    "x" * (1 << 17): "at most 65536",
}


@pytest.mark.parametrize("text", REFUSED, ids=range(len(REFUSED)))
def test_a_text_that_means_nothing_is_refused_with_a_reason(text: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        parsed(text)
    assert REFUSED[text] in str(refused.value)
    assert len(str(refused.value)) < 300


SPARE = """a: f32[6, 4]
x: i32[1]
c[i: 6, j: 4] = a[i, j] * 2.0
spare x: 3"""


def test_the_last_line_says_which_parts_of_the_output_may_be_left_out() -> None:
    program = parsed(SPARE)
    assert str(program) == SPARE
    workload = Workload.of_program("mul", program)
    assert workload.spare_parts == 3
    assert workload.spare_blocks == 1
    assert str(workload.whole.program) == "x0: f32[6, 4]\ns0[i0: 6, i1: 4] = x0[i0, i1] * 2.0"
    assert [each.limit for each in workload.tensors] == [0, 1, 0]
    blocks = f"{SPARE.removesuffix('3')}2 in each of 3"
    assert str(parsed(blocks)) == blocks
    by_block = Workload.of_program("mul", parsed(blocks))
    assert (by_block.spare_parts, by_block.spare_blocks) == (2, 3)
    assert by_block.whole == workload.whole


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (SPARE.replace("x: 3", "a: 3"), "the last input must be a: i32"),
        (SPARE.replace("x: 3", "x: 5"), "the output has no 5 equal parts"),
        (SPARE.replace("x: 3", "x: 2 in each of 5"), "the output has no 10 equal parts"),
        (SPARE.replace("x: 3", "x: 3 in each of 1"), "is not written as it is printed"),
        (SPARE.replace("spare", "a := c\nspare"), "updates or orders are computed whole"),
    ],
)
def test_parts_that_cannot_be_left_out_are_refused(text: str, fault: str) -> None:
    with pytest.raises(InvalidInput, match=fault):
        parsed(text)
