"""Epilogues: what is done to every entry of an output before it is stored."""

from enum import StrEnum

from kernelzoo.domain.operators.elementwise import UNARY
from kernelzoo.domain.operators.expressions import Expression, Read, Stage, read


class EpilogueKind(StrEnum):
    """An epilogue reads this besides the entry: nothing, or an input of a certain shape, which is
    added (COLUMN, ENTRY, MATRIX) or multiplied by (FACTOR, SCALAR)."""

    UNARY = "unary"
    COLUMN = "column"
    ENTRY = "entry"
    MATRIX = "matrix"
    FACTOR = "factor"
    SCALAR = "scalar"


EPILOGUES = {
    "bias": EpilogueKind.COLUMN,
    "residual": EpilogueKind.ENTRY,
    "mask": EpilogueKind.MATRIX,
    "scale": EpilogueKind.SCALAR,
    "scales": EpilogueKind.FACTOR,
    "relu": EpilogueKind.UNARY,
    "relu6": EpilogueKind.UNARY,
    "gelu": EpilogueKind.UNARY,
    "gelu_tanh": EpilogueKind.UNARY,
    "silu": EpilogueKind.UNARY,
    "sigmoid": EpilogueKind.UNARY,
    "tanh": EpilogueKind.UNARY,
}
"""bias adds a value for each column, residual one for each entry, mask one for each row and column,
the same in every matrix of a batch; scale multiplies by one value, scales by one for each column.
Their inputs have their names."""

UNFINISHED = "sum"
"""The stage of the entries that an epilogue finishes."""


def epilogue_inputs(
    epilogue: tuple[str, ...], output: tuple[int, ...]
) -> tuple[tuple[str, tuple[int, ...]], ...]:
    """Name and shape of each tensor that an epilogue reads, in order."""
    shapes = {
        EpilogueKind.COLUMN: output[-1:],
        EpilogueKind.ENTRY: output,
        EpilogueKind.MATRIX: output[-2:],
        EpilogueKind.FACTOR: output[-1:],
        EpilogueKind.SCALAR: (1,),
    }
    kinds = ((name, EPILOGUES[name]) for name in epilogue)
    return tuple((name, shapes[kind]) for name, kind in kinds if kind in shapes)


def finished(
    epilogue: tuple[str, ...], value: Expression, at: tuple[Expression, ...]
) -> Expression:
    """The entry at a place of which `value` is what the operator computes."""
    for name in epilogue:
        match EPILOGUES[name]:
            case EpilogueKind.UNARY:
                value = UNARY[name][1](value)
            case EpilogueKind.COLUMN:
                value = value + read(name, at[-1])
            case EpilogueKind.ENTRY:
                value = value + Read(name, at)
            case EpilogueKind.MATRIX:
                value = value + Read(name, at[-2:])
            case EpilogueKind.FACTOR:
                value = value * read(name, at[-1])
            case EpilogueKind.SCALAR:
                value = value * read(name, 0)
    return value


def with_epilogue(stages: tuple[Stage, ...], epilogue: tuple[str, ...]) -> tuple[Stage, ...]:
    if not epilogue:
        return stages
    *before, last = stages
    entries = Stage(UNFINISHED, last.axes, last.value, last.reducer, last.over)
    value = finished(epilogue, entries[last.axes], last.axes)
    return (*before, entries, Stage(name=last.name, axes=last.axes, value=value))
