"""A program as a product of activations of 8 bits, four to a word, with weights of as many.

products[i, j]: i32 = sum over k of bits(a[i, k / 4], …) * b[j, k]
row_sums[i]: i32 = sum over k of bits(a[i, k / 4], …)         where weights have zero points
c[i, j] = real(products[i, j] - a_zero[0] * b_sum[j] - …) * (a_scale[0] * b_scale[j])
…                                                             after: any value of one entry, or
scaled[i, j] = c[i, j] + bias[j]                              the bytes of entries, four to a word
words[i, w] = whole(min(max(round(scaled[i, 4 * w] / step[0]) + …, 0), 255)) | … << 8 | …
"""

from dataclasses import dataclass
from functools import lru_cache

from kernelzoo.domain.dtype import DType
from kernelzoo.domain.operators.byte_layers import BYTES_OF_PRODUCT
from kernelzoo.domain.operators.expressions import (
    Axis,
    Binary,
    BinaryOp,
    Expression,
    Program,
    Read,
    Reducer,
    Stage,
    number,
    parts,
    read,
)
from kernelzoo.domain.operators.integer_products import PER_WORD, activation_at, scaled_total
from kernelzoo.domain.workload import Workload
from services.tuner.schedules.base.quantised import finished_entry


@dataclass(frozen=True, slots=True, kw_only=True)
class IntegerProduct:
    """The names of tensors, and `value`, the entry of the output at `axes`, in which the stage
    `scaled` is read: a sum less what its zero points add, times its scales. `b_zero` is '' where
    weights have no zero points; `step` and `start` are '' where entries are no bytes."""

    a: str
    b: str
    a_scale: str
    a_zero: str
    b_scale: str
    b_sum: str
    b_zero: str
    m: int
    k: int
    n: int
    scaled: str
    axes: tuple[Axis, Axis]
    value: Expression
    step: str = ""
    start: str = ""

    @property
    def words(self) -> int:
        """Words of a row of a, and of b."""
        return self.k // PER_WORD


@lru_cache(maxsize=256)
def integer_product_of(workload: Workload) -> IntegerProduct:
    """The product that a workload is. Raises ValueError for any other."""
    found = integer_product(workload.program)
    if found is None:
        raise ValueError(f"{workload.key} is no product of integers")
    return found


def integer_product(program: Program) -> IntegerProduct | None:
    """The product that a program is; None for any other program."""
    if len(program.stages) < 2:
        return None
    products, scaled, *after = program.stages
    operands = _operands(products)
    if operands and len(after) == 1 and program.output_dtype is DType.I32:
        return _bytes_of_product(program, operands)
    row_sums: Stage | None = None
    if operands and after and _sums_rows(scaled, products):
        row_sums, scaled, *after = (scaled, *after)
    scales = _scales(scaled, products, row_sums) if operands else None
    if operands is None or scales is None:
        return None
    finished = finished_entry(program, (scaled,), tuple(after))
    if finished is None:
        return None
    axes, value = finished
    (a, b), (a_zero, b_sum, a_scale, b_scale, b_zero) = operands, scales
    m, n = products.shape
    return IntegerProduct(
        a=a,
        b=b,
        a_scale=a_scale,
        a_zero=a_zero,
        b_scale=b_scale,
        b_sum=b_sum,
        b_zero=b_zero,
        m=m,
        k=number(products.over[0].extent),
        n=n,
        scaled=scaled.name,
        axes=axes,
        value=value,
    )


def _bytes_of_product(program: Program, operands: tuple[str, str]) -> IntegerProduct | None:
    """The product of the operator that makes bytes of entries."""
    products, scaled, _ = program.stages
    (m, n), k = products.shape, number(products.over[0].extent)
    if program != Workload.of(BYTES_OF_PRODUCT, (m, k, n)).program:
        return None
    i, j = scaled.axes
    return IntegerProduct(
        a=operands[0],
        b=operands[1],
        a_scale="a_scale",
        a_zero="a_zero",
        b_scale="b_scale",
        b_sum="b_sum",
        b_zero="",
        m=m,
        k=k,
        n=n,
        scaled=products.name,
        axes=(i, j),
        value=Read(products.name, (i, j)) + read("bias", j),
        step="step",
        start="start",
    )


def _operands(stage: Stage) -> tuple[str, str] | None:
    """The tensors of a stage that is a product of integers."""
    if stage.reducer is not Reducer.SUM or stage.dtype is not DType.I32:
        return None
    if len(stage.axes) != 2 or len(stage.over) != 1:
        return None
    (i, j), (k,) = stage.axes, stage.over
    match stage.value:
        case Binary(
            BinaryOp.MUL,
            Binary(BinaryOp.BIT_AND, Binary(BinaryOp.SHIFT_RIGHT, Read(a), _), _) as activation,
            Read(b, at),
        ) if at == (j, k) and activation == activation_at(a, i, k):
            return (a, b) if number(k.extent) % PER_WORD == 0 else None
    return None


def _sums_rows(stage: Stage, products: Stage) -> bool:
    """Returns whether a stage has the sums of the activations that are multiplied."""
    if stage.reducer is not Reducer.SUM or stage.dtype is not DType.I32 or len(stage.axes) != 1:
        return False
    match products.value:
        case Binary(BinaryOp.MUL, activation, _):
            (i,), (row, _) = stage.axes, products.axes
            return stage.over == products.over and i == row and stage.value == activation
    return False


def _scales(
    stage: Stage, products: Stage, row_sums: Stage | None
) -> tuple[str, str, str, str, str] | None:
    """The zero point of a, the sums of b, the scales of both, and the zero points of b."""
    if stage.reducer is not None or stage.shape != products.shape:
        return None
    i, j = stage.axes
    names = [part.tensor for part in parts(stage.value) if isinstance(part, Read)]
    if len(names) != (5 if row_sums is None else 8):
        return None
    _, a_zero, b_sum, *others = names
    *zeros, a_scale, b_scale = others
    wanted = scaled_total(
        products[i, j],
        i,
        j,
        products.over[0].extent,
        (a_zero, b_sum, a_scale, b_scale),
        None if row_sums is None else (zeros[0], row_sums.name),
    )
    b_zero = zeros[0] if zeros else ""
    return (a_zero, b_sum, a_scale, b_scale, b_zero) if stage.value == wanted else None
