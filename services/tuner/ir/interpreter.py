"""Runs a program at any stage over NumPy buffers: slow, plain, the oracle of the other steps."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import erf

import numpy as np
from numpy.typing import NDArray

from services.tuner.ir.affine import Affine
from services.tuner.ir.lanes import lanes_of
from services.tuner.ir.nodes import (
    Allocate,
    Assign,
    Barrier,
    Binary,
    BinaryOp,
    Block,
    Broadcast,
    Buffer,
    Call,
    Cast,
    Compare,
    CompareOp,
    Const,
    Element,
    Expression,
    ExtractLane,
    If,
    IndexValue,
    Load,
    Loop,
    MathFunction,
    MultiplyAdd,
    Program,
    Read,
    Register,
    Select,
    Statement,
    Store,
)
from services.tuner.ir.unsupported import unsupported

Value = NDArray[np.generic]
"""The lanes of a value."""

_TYPES: dict[Element, type[np.generic]] = {Element.F32: np.float32, Element.I32: np.int32}
_BINARY = {
    BinaryOp.ADD: np.add,
    BinaryOp.SUB: np.subtract,
    BinaryOp.MUL: np.multiply,
    BinaryOp.DIV: np.divide,
    BinaryOp.MIN: np.minimum,
    BinaryOp.MAX: np.maximum,
}
_COMPARE = {CompareOp.EQ: np.equal, CompareOp.LT: np.less, CompareOp.LE: np.less_equal}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Machine:
    """The state of a run; its dictionaries change as the program runs."""

    buffers: dict[str, Value]
    variables: dict[str, int] = field(default_factory=dict)
    registers: dict[Register, Value] = field(default_factory=dict)


def interpret(
    program: Program, arguments: dict[str, NDArray[np.float32]], *, low: int, high: int
) -> None:
    """Runs iterations low … high-1 of the range loop on flat arrays by name, in place."""
    machine = _Machine(buffers={**arguments})
    for value in range(low, high):
        machine.variables[program.body.var] = value
        _block(program.body.body, machine)


def _block(block: Block, machine: _Machine) -> None:
    for statement in block:
        _statement(statement, machine)


def _statement(statement: Statement, machine: _Machine) -> None:
    match statement:
        case Store(buffer=buffer, index=index, value=value):
            span = _span(buffer, index, lanes_of(value), machine)
            machine.buffers[buffer.name][span] = _value(value, machine)
        case Assign(register=register, value=value):
            machine.registers[register] = _value(value, machine)
        case Loop(var=var, extent=extent, body=body):
            for count in range(extent):
                machine.variables[var] = count
                _block(body, machine)
        case If(bounds=bounds, body=body, otherwise=otherwise):
            holds = all(_at(bound.index, machine) < bound.limit for bound in bounds)
            _block(body if holds else otherwise, machine)
        case Allocate(buffer=buffer, body=body):
            fresh = np.full(buffer.size, -1, _TYPES[buffer.element])
            machine.buffers[buffer.name] = (
                fresh * np.nan if buffer.element is Element.F32 else fresh
            )
            _block(body, machine)
        case Barrier():
            raise unsupported(statement, "the interpreter, which runs one thread")
        case _:
            raise unsupported(statement, "the interpreter")


def _at(index: Affine, machine: _Machine) -> int:
    return index.constant + sum(c * machine.variables[var] for var, c in index.terms)


def _span(buffer: Buffer, index: Affine, lanes: int, machine: _Machine) -> slice:
    """Raises IndexError where the program leaves a buffer, which NumPy would cut short."""
    start = _at(index, machine)
    if start < 0 or start + lanes > buffer.size:
        raise IndexError(f"{buffer.name}[{start}] of {lanes} lanes leaves its {buffer.size}")
    return slice(start, start + lanes)


def _values(expressions: tuple[Expression, ...], machine: _Machine) -> Iterator[Value]:
    return (_value(expression, machine) for expression in expressions)


def _value(expression: Expression, machine: _Machine) -> Value:
    match expression:
        case Const(value=value, element=element, lanes=lanes):
            return np.full(lanes, value, _TYPES[element])
        case IndexValue(index=index):
            return np.full(1, _at(index, machine), np.int32)
        case Load(buffer=buffer, index=index, lanes=lanes):
            return machine.buffers[buffer.name][_span(buffer, index, lanes, machine)].copy()
        case Read(register=register):
            return machine.registers[register]
        case Broadcast(value=value, lanes=lanes):
            return np.repeat(_value(value, machine), lanes)
        case ExtractLane(value=value, lane=lane):
            return _value(value, machine)[lane : lane + 1]
        case Binary(op=op, left=left, right=right):
            return _lanes(_BINARY[op](*_values((left, right), machine)))
        case MultiplyAdd(left=left, right=right, addend=addend):
            one, other, total = _values((left, right, addend), machine)
            return _lanes(np.add(np.multiply(one, other), total))
        case Compare(op=compare, left=left, right=right):
            return _lanes(_COMPARE[compare](*_values((left, right), machine)))
        case Select(condition=condition, then=then, otherwise=otherwise):
            return _lanes(np.where(*_values((condition, then, otherwise), machine)))
        case Cast(value=value, element=element):
            return _value(value, machine).astype(_TYPES[element])
        case Call(function=function, argument=argument):
            return _call(function, _value(argument, machine))
    raise unsupported(expression, "the interpreter")


def _call(function: MathFunction, argument: Value) -> Value:
    match function:
        case MathFunction.SQRT:
            return _lanes(np.sqrt(argument))
        case MathFunction.RSQRT:
            return _lanes(np.reciprocal(np.sqrt(argument)))
        case MathFunction.EXP:
            return _lanes(np.exp(argument))
        case MathFunction.TANH:
            return _lanes(np.tanh(argument))
        case MathFunction.ERF:
            return np.array([erf(x) for x in argument.tolist()], np.float32)


def _lanes(result: object) -> Value:
    return np.asarray(result)
