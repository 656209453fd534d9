"""A score of what the product of a query and a key is, in the loop IR."""

from collections.abc import Sequence

from kernelzoo.domain.operators.attention import SCORED, ManyRowsAttention
from kernelzoo.domain.operators.epilogues import EpilogueKind
from services.tuner import ir

LOWEST = -3.4028234663852886e38
"""No score is smaller, so that the largest of a row is one of its own, masked as it may be."""


def scored(
    given: ManyRowsAttention,
    parameters: Sequence[ir.Buffer],
    value: ir.Expression,
    at: tuple[ir.Affine, ir.Affine, ir.Affine],
) -> ir.Expression:
    """The product `value` of the query and the key `at` a head, a row and a column, scaled and
    masked. `parameters` are those of the workload, flat."""
    head, row, column = at
    entry = head * (given.m * given.n) + row * given.n + column
    last = len(parameters) - 1 - len(given.told)
    extra = parameters[last - len(given.epilogue) : last]
    for name, buffer in zip(given.epilogue, extra, strict=True):
        kind = SCORED[name]
        places = {
            EpilogueKind.COLUMN: column,
            EpilogueKind.FACTOR: column,
            EpilogueKind.ENTRY: entry,
            EpilogueKind.MATRIX: row * given.n + column,
            EpilogueKind.SCALAR: ir.ZERO,
        }
        multiplies = kind in (EpilogueKind.FACTOR, EpilogueKind.SCALAR)
        op = ir.BinaryOp.MUL if multiplies else ir.BinaryOp.ADD
        value = ir.Binary(op=op, left=value, right=buffer[places[kind]])
    return value
