"""A score of what the product of a query and a key is, in the loop IR."""

from collections.abc import Sequence

from kernelzoo.domain.operators.attention import SCORED, ManyRowsAttention
from kernelzoo.domain.operators.epilogues import EpilogueKind
from services.tuner.ir.affine import Affine
from services.tuner.ir.build import ZERO, binary, total
from services.tuner.ir.nodes import BinaryOp, Buffer, Expression, Load

LOWEST = -3.4028234663852886e38
"""No score is smaller, so that the largest of a row is one of its own, masked as it may be."""


def scored(
    given: ManyRowsAttention,
    parameters: Sequence[Buffer],
    value: Expression,
    at: tuple[Affine, Affine, Affine],
) -> Expression:
    """The product `value` of the query and the key `at` a head, a row and a column, scaled and
    masked. `parameters` are those of the workload, flat."""
    head, row, column = at
    entry = total(head.times(given.m * given.n), row.times(given.n), column)
    extra = parameters[len(parameters) - 1 - len(given.epilogue) : -1]
    for name, buffer in zip(given.epilogue, extra, strict=True):
        kind = SCORED[name]
        places = {
            EpilogueKind.COLUMN: column,
            EpilogueKind.FACTOR: column,
            EpilogueKind.ENTRY: entry,
            EpilogueKind.MATRIX: row.times(given.n).plus(column),
            EpilogueKind.SCALAR: ZERO,
        }
        multiplies = kind in (EpilogueKind.FACTOR, EpilogueKind.SCALAR)
        op = BinaryOp.MUL if multiplies else BinaryOp.ADD
        value = binary(op, value, Load(buffer=buffer, index=places[kind]))
    return value
