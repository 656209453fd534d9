"""A program as products with quantised weights, of rows that may be normalised first.

square[i] = sum over k of a[i, k] * a[i, k]                      before: nothing, or an RMS norm
factor[i] = rsqrt(square[i] * (1.0 / K) + eps)
normed[i, k] = a[i, k] * factor[i] * gamma[k]
gate[i, j] = sum over k of normed[i, k] * (real(bits(words[j, k / 8], …)) - 8.0) * scales[j, …]
up[i, j] = sum over k of normed[i, k] * …[j + n, …]              further products of the same a
c[i, j] = gate[i, j] * sigmoid(gate[i, j]) * up[i, j]            after: any value of one entry
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from kernelzoo.domain.operators.expressions import (
    Axis,
    Binary,
    BinaryOp,
    Call,
    Cast,
    Expression,
    Function,
    Integer,
    Program,
    Read,
    Real,
    Reducer,
    Stage,
    number,
    parts,
    rebuilt,
)
from kernelzoo.domain.operators.quantised import BLOCKS, ROW_STEP, WIDTHS, Form, weight
from kernelzoo.domain.workload import Workload
from services.tuner.schedules.base.entry import is_plain

FEW_ROWS_WASM, FEW_ROWS_WEBGPU = 4, 8
"""Rows of activations: for more of them weights are worth being kept as f32 in WebAssembly, and a
tile of a matrix product on a GPU."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """The operand of one product: its rows are those of the tensors from `first_row` on. `zeros` is
    the tensor of zero points, '' where `form` has none."""

    words: str
    scales: str
    zeros: str
    form: Form
    first_row: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RowNorm:
    """Entries of a row are divided by the root of their mean square, and multiplied by gamma."""

    gamma: str
    epsilon: float


@dataclass(frozen=True, slots=True, kw_only=True)
class QuantisedProduct:
    """`value` is the entry of the output at `axes`, in which `products` are read, one for each of
    `weights`, all of one form."""

    a: str
    norm: RowNorm | None
    m: int
    k: int
    n: int
    products: tuple[str, ...]
    weights: tuple[Weights, ...]
    axes: tuple[Axis, Axis]
    value: Expression

    @property
    def form(self) -> Form:
        return self.weights[0].form


@lru_cache(maxsize=256)
def quantised_product_of(workload: Workload) -> QuantisedProduct:
    """The product that a workload is. Raises ValueError for any other."""
    found = quantised_product(workload.program)
    if found is None:
        raise ValueError(f"{workload.key} is no product with quantised weights")
    return found


def quantised_product(program: Program) -> QuantisedProduct | None:
    """The product that a program is; None for any other program."""
    found = {stage.name: operands for stage in program.stages if (operands := _operands(stage))}
    if not found:
        return None
    places = [n for n, stage in enumerate(program.stages) if stage.name in found]
    first, last = places[0], places[-1]
    made = program.stages[first : last + 1]
    sources = {source for source, _ in found.values()}
    if len(made) != len(found) or len(sources) != 1 or len({s.shape for s in made}) != 1:
        return None
    (source,) = sources
    norm = _norm(program.stages[:first], source)
    inputs = {each.name: each for each in program.inputs}
    a = norm[0] if norm else source
    if a not in inputs or (first and norm is None):
        return None
    if len({weights.form for _, weights in found.values()}) != 1:
        return None
    finished = finished_entry(program, made, program.stages[last + 1 :])
    if finished is None:
        return None
    axes, value = finished
    m, n = made[0].shape
    return QuantisedProduct(
        a=a,
        norm=norm[1] if norm else None,
        m=m,
        k=number(made[0].over[0].extent),
        n=n,
        products=tuple(found),
        weights=tuple(weights for _, weights in found.values()),
        axes=axes,
        value=value,
    )


def _operands(stage: Stage) -> tuple[str, Weights] | None:
    """The tensor of rows and the weights of a stage that is a product of them."""
    if stage.reducer is not Reducer.SUM or len(stage.axes) != 2 or len(stage.over) != 1:
        return None
    (i, j), (k,) = stage.axes, stage.over
    match stage.value:
        case Binary(BinaryOp.MUL, Read(source, (row, column)), factor) if (row, column) == (i, k):
            found = _weights(factor, j, k)
            return (source, found) if found else None
    return None


def _weights(factor: Expression, j: Axis, k: Axis) -> Weights | None:
    match factor:
        case Binary(
            BinaryOp.MUL,
            Binary(
                BinaryOp.SUB,
                Cast(
                    Binary(
                        BinaryOp.BIT_AND,
                        Binary(BinaryOp.SHIFT_RIGHT, Read(words, (row, _)), _),
                        Integer(mask),
                    )
                ),
                zero,
            ),
            Read(scales, (_, Binary(BinaryOp.FLOOR_DIV, _, Integer(block)))),
        ):
            pass
        case _:
            return None
    zeros = next((part.tensor for part in parts(zero) if isinstance(part, Read)), "")
    width = mask.bit_length()
    match row:
        case Axis() if row == j:
            first_row = 0
        case Binary(BinaryOp.ADD, Axis() as axis, Integer(first_row)) if axis == j:
            pass
        case _:
            return None
    if width not in WIDTHS or block not in BLOCKS or number(k.extent) % ROW_STEP:
        return None
    if factor != weight(words, scales, row, k, width=width, block=block, zeros=zeros):
        return None
    form = Form(width=width, block=block, zeros=bool(zeros))
    return Weights(words=words, scales=scales, zeros=zeros, form=form, first_row=first_row)


def _norm(before: tuple[Stage, ...], source: str) -> tuple[str, RowNorm] | None:
    """The input that is normalised, and how; None where the stages do not normalise `source`."""
    if len(before) != 3 or before[-1].name != source:
        return None
    square, factor, normed = before
    match square:
        case Stage(
            axes=(i,),
            value=Binary(BinaryOp.MUL, Read(a, at), Read(again, there)),
            reducer=Reducer.SUM,
            over=(k,),
        ) if a == again and at == there == (i, k):
            pass
        case _:
            return None
    match factor.value:
        case Call(
            Function.RSQRT,
            Binary(
                BinaryOp.ADD, Binary(BinaryOp.MUL, Read(squares, (_,)), Real(share)), Real(epsilon)
            ),
        ) if squares == square.name and share == 1.0 / number(k.extent):
            pass
        case _:
            return None
    match normed.value:
        case Binary(
            BinaryOp.MUL,
            Binary(BinaryOp.MUL, Read(plain, at), Read(factors, (row,))),
            Read(gamma, (column,)),
        ) if (plain, factors) == (a, factor.name) and at == normed.axes == (row, column):
            return a, RowNorm(gamma=gamma, epsilon=epsilon)
    return None


def finished_entry(
    program: Program, made: tuple[Stage, ...], after: tuple[Stage, ...]
) -> tuple[tuple[Axis, Axis], Expression] | None:
    """The entry of the output at its axes, from products at the same place."""
    if not after:
        i, j = made[0].axes
        return ((i, j), Read(made[0].name, (i, j))) if len(made) == 1 else None
    if any(stage.reducer or stage.shape != made[0].shape for stage in after):
        return None
    values = {stage.name: stage for stage in after[:-1]}
    axes = after[-1].axes

    def inlined(part: Expression) -> Expression:
        match part:
            case Read(tensor, at) if tensor in values and at == axes:
                stage = values[tensor]
                places = dict(zip(stage.axes, axes, strict=True))
                return inlined(_moved(stage.value, places))
        return rebuilt(part, inlined)

    value = inlined(after[-1].value)
    i, j = axes
    own = {stage.name for stage in made}
    if any(read.tensor in own and read.at != axes for read in _reads(value)):
        return None
    inputs = {each.name: each.dtype for each in program.inputs}
    return ((i, j), value) if is_plain(value, inputs, own) else None


def _moved(value: Expression, places: dict[Axis, Axis]) -> Expression:
    if isinstance(value, Axis):
        return places[value]
    return rebuilt(value, lambda part: _moved(part, places))


def _reads(value: Expression) -> Iterator[Read]:
    return (part for part in parts(value) if isinstance(part, Read))
