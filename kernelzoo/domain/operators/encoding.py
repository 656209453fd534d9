"""Programs of models of an encoder and a decoder: what stands before the layers of an encoder, and
what it leaves to the decoder.

The encoder takes texts of any length up to its own: `spare` i32[1] says how many places at the end
there are not.
"""

from dataclasses import replace

from kernelzoo.domain.dtype import DType
from kernelzoo.domain.operators.attention import SPARE
from kernelzoo.domain.operators.decoding import STATE, position_within
from kernelzoo.domain.operators.expressions import (
    Axis,
    Choice,
    Input,
    Integer,
    Program,
    Real,
    Spare,
    Stage,
    Update,
    largest,
    read,
    smallest,
)


def spared(program: Program, rows: int) -> Program:
    """The program of which the last of so many rows need not be computed, as a last input `spare`
    says."""
    return replace(program, inputs=(*program.inputs, SPARE), spare=Spare(SPARE.name, rows))


def placed_rows(m: int, n: int, factor: float) -> Program:
    """c[m, n] = a[m, n] · factor + places[m, n]."""
    i, j = _axis("i", m), _axis("j", n)
    value = read("a", i, j) * Real(factor) + read("places", i, j)
    return Program(
        inputs=(Input("a", "f32", (m, n)), Input("places", "f32", (m, n))),
        stages=(Stage("c", (i, j), value),),
    )


def placed_token(length: int, n: int, factor: float) -> Program:
    """c[1, n] = a[1, n] · factor + the row of places[length, n] that the first word of position
    i32[4] says."""
    i, j = _axis("i", 1), _axis("j", n)
    value = read("a", i, j) * Real(factor) + read("places", read("here"), j)
    return Program(
        inputs=(
            Input("a", "f32", (1, n)),
            Input("places", "f32", (length, n)),
            Input("position", "i32", (STATE,)),
        ),
        stages=(
            Stage("here", (), position_within(length), dtype=DType.I32),
            Stage("c", (i, j), value),
        ),
    )


def distance_biases(heads: int, length: int) -> Program:
    """c[heads, length, length] = biases[heads, j - i + length - 1], as T5 adds them to scores."""
    h, i, j = _axis("h", heads), _axis("i", length), _axis("j", length)
    return Program(
        inputs=(Input("biases", "f32", (heads, 2 * length - 1)),),
        stages=(Stage("c", (h, i, j), read("biases", h, j - i + (length - 1))),),
    )


def windows(m: int, n: int, columns: int, *, stride: int, transposed: bool = False) -> Program:
    """c[m, columns]: of each place the n entries of the three rows around row i · stride of a, side
    by side, as a convolution of three taps reads them; 0 outside of a and behind the 3 n columns.
    a[m · stride, n], or a[n, m · stride] where it is transposed."""
    rows = m * stride
    i, j = _axis("i", m), _axis("j", columns)
    row = i * stride + j // n - 1
    inside, column = largest(smallest(row, rows - 1), Integer(0)), j % n
    entry = read("a", column, inside) if transposed else read("a", inside, column)
    there = (Integer(0) <= row, row < rows, j < 3 * n)
    return Program(
        inputs=(Input("a", "f32", (n, rows) if transposed else (rows, n)),),
        stages=(Stage("c", (i, j), Choice(there, entry, Real(0.0))),),
    )


def kept_rows(m: int, n: int) -> Program:
    """Writes a[m, n] to the state kept[m, n]. c[1] is its first entry."""
    i, j, x = _axis("i", m), _axis("j", n), _axis("x", 1)
    return Program(
        inputs=(Input("a", "f32", (m, n)), Input("kept", "f32", (m, n))),
        stages=(
            Stage("new_kept", (i, j), read("a", i, j)),
            Stage("c", (x,), read("a", x, x)),
        ),
        updates=(Update("kept", "new_kept"),),
    )


def _axis(name: str, extent: int) -> Axis:
    return Axis(name, Integer(extent))
