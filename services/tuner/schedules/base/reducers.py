"""The value that a reduction starts with, and the operation that joins two values."""

from math import inf

from kernelzoo.domain.operators.expressions import Reducer
from services.tuner import ir

NEUTRAL = {Reducer.SUM: 0.0, Reducer.PROD: 1.0, Reducer.MAX: -inf, Reducer.MIN: inf}

JOINS = {
    Reducer.SUM: ir.BinaryOp.ADD,
    Reducer.PROD: ir.BinaryOp.MUL,
    Reducer.MAX: ir.BinaryOp.MAXIMUM,
    Reducer.MIN: ir.BinaryOp.MINIMUM,
}
