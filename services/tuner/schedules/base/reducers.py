"""The value that a reduction starts with, and the operation that joins two values."""

from math import inf

from kernelzoo.domain.operators.expressions import Reducer
from services.tuner.ir.nodes import BinaryOp

NEUTRAL = {Reducer.SUM: 0.0, Reducer.PROD: 1.0, Reducer.MAX: -inf, Reducer.MIN: inf}

JOINS = {
    Reducer.SUM: BinaryOp.ADD,
    Reducer.PROD: BinaryOp.MUL,
    Reducer.MAX: BinaryOp.MAXIMUM,
    Reducer.MIN: BinaryOp.MINIMUM,
}
