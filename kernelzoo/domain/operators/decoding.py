"""Programs of language models that decode token by token, with quantised weights.

An RMS norm before a product is a prologue of it: each workgroup normalises the row again, which
costs less than a dispatch.
"""

from kernelzoo.domain.operators.expressions import (
    Axis,
    Call,
    Expression,
    Function,
    Input,
    Integer,
    Program,
    Read,
    Real,
    Reducer,
    Stage,
    read,
)
from kernelzoo.domain.operators.quantised import BLOCK, per_word, weight


def normed_matmul_q4(
    m: int, k: int, n: int, *, epsilon: float, width: int = 4, bias: bool = False
) -> Program:
    """c[m, n] = rms_norm(a)[m, k] · weights[n, k]ᵀ (+ bias[n]).

    Inputs: a[m, k], gamma[k], words i32[n, k · width / 32], scales[n, k / 32], bias[n] where asked
    for. Weights of several projections of the same row are one matrix, one below the other.
    """
    i, j = _places(m, n)
    added = (Input("bias", "f32", (n,)),) if bias else ()
    made = _product("sum", "normed", i, j, k, width)
    value = made[i, j] + read("bias", j) if bias else made[i, j]
    return Program(
        inputs=(*_normed_inputs(m, k), *_weights(n, k, width), *added),
        stages=(*_norm(m, k, epsilon), made, Stage("c", (i, j), value)),
    )


def swiglu_q4(m: int, k: int, n: int, *, epsilon: float | None = None, width: int = 4) -> Program:
    """c[m, n] = silu(gate) · up, of two products of the same row, or of its norm with an epsilon.

    Inputs: a[m, k], gamma[k] where normalised, words i32[2n, k · width / 32], scales[2n, k / 32]:
    the n rows of the gate, then those of up.
    """
    i, j = _places(m, n)
    source = "a" if epsilon is None else "normed"
    gate = _product("gate", source, i, j, k, width)
    up = _product("up", source, i, j, k, width, first_row=n)
    entry = gate[i, j]
    value = entry * Call(Function.SIGMOID, entry) * up[i, j]
    before = () if epsilon is None else _norm(m, k, epsilon)
    given = (_row_input(m, k),) if epsilon is None else _normed_inputs(m, k)
    return Program(
        inputs=(*given, *_weights(2 * n, k, width)),
        stages=(*before, gate, up, Stage("c", (i, j), value)),
    )


def _places(m: int, n: int) -> tuple[Axis, Axis]:
    return Axis("i", Integer(m)), Axis("j", Integer(n))


def _row_input(m: int, k: int) -> Input:
    return Input("a", "f32", (m, k))


def _normed_inputs(m: int, k: int) -> tuple[Input, ...]:
    return _row_input(m, k), Input("gamma", "f32", (k,))


def _weights(rows: int, k: int, width: int) -> tuple[Input, ...]:
    return (
        Input("words", "i32", (rows, k // per_word(width))),
        Input("scales", "f32", (rows, k // BLOCK)),
    )


def _norm(m: int, k: int, epsilon: float) -> tuple[Stage, ...]:
    i, j, over = Axis("i", Integer(m)), Axis("j", Integer(k)), Axis("k", Integer(k))
    square = read("a", i, over) * read("a", i, over)
    mean = read("square", i) * Real(1.0 / k)
    return (
        Stage("square", (i,), square, Reducer.SUM, (over,)),
        Stage("factor", (i,), Call(Function.RSQRT, mean + Real(epsilon))),
        Stage("normed", (i, j), read("a", i, j) * read("factor", i) * read("gamma", j)),
    )


def _product(
    name: str, source: str, i: Axis, j: Axis, k: int, width: int, first_row: int = 0
) -> Stage:
    over = Axis("k", Integer(k))
    row: Expression = j + first_row if first_row else j
    value = Read(source, (i, over)) * weight("words", "scales", row, over, width=width)
    return Stage(name, (i, j), value, Reducer.SUM, (over,))
