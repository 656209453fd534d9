"""Reference interpreter: runs a program of any stage on NumPy arrays, as the oracle of tests."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from math import erf

import numpy as np
from numpy.typing import NDArray

from kernelzoo.domain.dtype import DType
from kernelzoo.errors import UnsupportedProgram
from services.tuner.ir.affine import Affine
from services.tuner.ir.nodes import (
    Allocate,
    Assign,
    Barrier,
    Binary,
    BinaryOp,
    Bitcast,
    Block,
    Broadcast,
    Buffer,
    Bytes,
    Call,
    Cast,
    Compare,
    CompareOp,
    Const,
    DotBytes,
    DotPairs,
    DotQuads,
    Expression,
    ExtractLane,
    Halves,
    If,
    IndexValue,
    Lanes,
    Let,
    Load,
    Loop,
    LoopKind,
    MathFunction,
    MultiplyAdd,
    Program,
    Register,
    RegisterRead,
    RightBytes,
    Select,
    Shuffle,
    Statement,
    Store,
    SubgroupReduce,
    lanes_of,
    unsupported,
)

Value = NDArray[np.generic]
"""One element for each lane."""

_TYPES: dict[DType, type[np.generic]] = {
    DType.F32: np.float32,
    DType.F16: np.float16,
    DType.I32: np.int32,
    DType.I8: np.int8,
    DType.I64: np.int64,
}


def _quotient(x: Value, y: Value) -> Value:
    """0 by 0, and no trap for the least integer by -1."""
    wide, by = x.astype(np.int64), y.astype(np.int64)
    size = np.abs(wide) // np.maximum(np.abs(by), 1)
    return np.where(by == 0, 0, np.where((wide < 0) == (by < 0), size, -size)).astype(np.int32)


def _power(x: Value, y: Value) -> Value:
    if x.dtype.kind == "f":
        return np.float_power(x, y).astype(np.float32)
    powers = [_whole_power(int(base), int(exponent)) for base, exponent in zip(x, y, strict=True)]
    return np.array(powers, np.uint32).view(np.int32)


def _whole_power(base: int, exponent: int) -> int:
    """The low 32 bits of the power, of which a negative one has lost its fraction."""
    if exponent < 0:
        return (base if exponent % 2 else 1) % (1 << 32) if abs(base) == 1 else 0
    return int(pow(base, exponent, 1 << 32))


_BINARY: dict[BinaryOp, Callable[[Value, Value], object]] = {
    BinaryOp.ADD: np.add,
    BinaryOp.SUB: np.subtract,
    BinaryOp.MUL: np.multiply,
    BinaryOp.DIV: np.divide,
    BinaryOp.MIN: np.minimum,
    BinaryOp.MAX: np.maximum,
    BinaryOp.MINIMUM: np.minimum,
    BinaryOp.MAXIMUM: np.maximum,
    BinaryOp.FLOOR_DIV: np.floor_divide,
    BinaryOp.FLOOR_MOD: np.mod,
    BinaryOp.QUOTIENT: _quotient,
    BinaryOp.AND: np.bitwise_and,
    BinaryOp.OR: np.bitwise_or,
    BinaryOp.XOR: np.bitwise_xor,
    BinaryOp.SHIFT_LEFT: lambda x, y: np.left_shift(x, np.bitwise_and(y, 31)),
    BinaryOp.SHIFT_RIGHT: lambda x, y: np.right_shift(x, np.bitwise_and(y, 31)),
    BinaryOp.POW: _power,
    BinaryOp.FMOD: np.fmod,
}
_COMPARE = {
    CompareOp.EQ: np.equal,
    CompareOp.NE: np.not_equal,
    CompareOp.LT: np.less,
    CompareOp.LE: np.less_equal,
}
_IN_DOUBLE: dict[MathFunction, Callable[[NDArray[np.float64]], object]] = {
    MathFunction.EXP: np.exp,
    MathFunction.TANH: np.tanh,
    MathFunction.RSQRT: lambda x: 1 / np.sqrt(x),
    MathFunction.SIGMOID: lambda x: 1 / (1 + np.exp(-x)),
    MathFunction.ERF: np.vectorize(erf),
    MathFunction.SQRT: np.sqrt,
    MathFunction.NEAREST: np.rint,
    MathFunction.ABS: np.abs,
    MathFunction.LOG: np.log,
    MathFunction.EXPM1: np.expm1,
    MathFunction.LOG1P: np.log1p,
    MathFunction.SIN: np.sin,
    MathFunction.COS: np.cos,
    MathFunction.FLOOR: np.floor,
    MathFunction.CEIL: np.ceil,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Machine:
    """The state of a run: the contents of buffers, variables and registers."""

    buffers: dict[str, Value]
    variables: dict[str, int] = field(default_factory=dict)
    registers: dict[Register, Value] = field(default_factory=dict)


def interpret(
    program: Program, arguments: Mapping[str, NDArray[np.generic]], *, low: int, high: int
) -> None:
    """Runs iterations low … high-1 of the range loop on flat arrays by name, in place.

    Threads of a workgroup run one after another from barrier to barrier.
    """
    machine = _Machine(buffers={**arguments})
    for value in range(low, high):
        machine.variables[program.body.var] = value
        for _ in _block(program.body.body, machine):
            raise UnsupportedProgram("a barrier stands outside of a loop over threads")


def _block(block: Block, machine: _Machine) -> Iterator[None]:
    """Runs a block; yields at every barrier."""
    for statement in block:
        if isinstance(statement, Store | Assign):
            if isinstance(statement.value, SubgroupReduce):
                yield from _shared(statement.value, machine)
            _write(statement, machine)
        else:
            yield from _statement(statement, machine)


def _shared(reduced: SubgroupReduce, machine: _Machine) -> Iterator[None]:
    """Stores the value of this thread in the shared buffer, then waits for the others."""
    thread, value = int(_value(reduced.thread, machine)[0]), _value(reduced.value, machine)
    machine.buffers[reduced.shared.name].reshape(-1, value.size)[thread] = value
    yield


def _reduced(reduced: SubgroupReduce, machine: _Machine) -> Value:
    """Combines neighbours, then neighbouring pairs, …: the order of a butterfly reduction."""
    thread = int(_value(reduced.thread, machine)[0])
    first = thread - thread % reduced.threads
    shared = machine.buffers[reduced.shared.name].reshape(-1, lanes_of(reduced.value))
    values = shared[first : first + reduced.threads]
    while len(values) > 1:
        values = _lanes(_BINARY[reduced.op](values[::2], values[1::2]))
    return np.asarray(values[0])


def _write(statement: Store | Assign, machine: _Machine) -> None:
    match statement:
        case Store(buffer=buffer, index=index, value=value):
            span = _span(buffer, index, lanes_of(value), machine)
            machine.buffers[buffer.name][span] = _value(value, machine)
        case Assign(register=register, value=value):
            machine.registers[register] = _value(value, machine)


def _statement(statement: Statement, machine: _Machine) -> Iterator[None]:
    match statement:
        case Loop(kind=LoopKind.THREAD_INDEX):
            _threads(statement, machine)
        case Loop(var=var, extent=extent, body=body):
            for count in range(extent):
                machine.variables[var] = count
                yield from _block(body, machine)
        case Let(var=var, value=value, low=low, high=high, body=body):
            machine.variables[var] = _bound_value(_value(value, machine), low, high)
            yield from _block(body, machine)
        case If(bounds=bounds, body=body, otherwise=otherwise):
            holds = all(_at(bound.index, machine) < bound.limit for bound in bounds)
            yield from _block(body if holds else otherwise, machine)
        case Allocate(buffer=buffer, body=body):
            fresh = np.full(buffer.size, -1, _TYPES[buffer.dtype])
            machine.buffers[buffer.name] = fresh * np.nan if buffer.dtype is DType.F32 else fresh
            yield from _block(body, machine)
        case Barrier():
            yield
        case _:
            raise unsupported(statement, "the interpreter")


def _threads(loop: Loop, machine: _Machine) -> None:
    """Each thread has its own variables, registers and local buffers.

    Raises UnsupportedProgram where some threads reach a barrier and others do not.
    """
    running = [_block(loop.body, _thread(loop, count, machine)) for count in range(loop.extent)]
    done = object()
    while True:
        paused = [next(thread, done) is not done for thread in running]
        if not any(paused):
            return
        if not all(paused):
            raise UnsupportedProgram("some threads of a workgroup reach a barrier, others do not")


def _thread(loop: Loop, count: int, machine: _Machine) -> _Machine:
    return replace(
        machine,
        buffers={**machine.buffers},
        variables={**machine.variables, loop.var: count},
        registers={**machine.registers},
    )


def _bound_value(value: Value, low: int, high: int) -> int:
    """Raises IndexError where the value is out of the range that the Let states."""
    number = int(value[0])
    if not low <= number <= high:
        raise IndexError(f"{number} is not from {low} to {high}")
    return number


def _at(index: Affine, machine: _Machine) -> int:
    return index.constant + sum(c * machine.variables[var] for var, c in index.terms)


def _span(buffer: Buffer, index: Affine, lanes: int, machine: _Machine) -> slice:
    """Raises IndexError for an access out of bounds, which NumPy would cut short."""
    start = _at(index, machine)
    if start < 0 or start + lanes > buffer.size:
        raise IndexError(f"{buffer.name}[{start}] of {lanes} lanes leaves its {buffer.size}")
    return slice(start, start + lanes)


def _values(expressions: tuple[Expression, ...], machine: _Machine) -> Iterator[Value]:
    return (_value(expression, machine) for expression in expressions)


def _value(expression: Expression, machine: _Machine) -> Value:
    match expression:
        case Const(value=value, dtype=dtype, lanes=lanes):
            return np.full(lanes, value, _TYPES[dtype])
        case IndexValue(index=index):
            return np.array([_at(index, machine)], np.int64).astype(np.int32)
        case Load(buffer=buffer, index=index, lanes=lanes):
            held = machine.buffers[buffer.name][_span(buffer, index, lanes, machine)]
            return held.astype(_TYPES[buffer.dtype.compute_dtype])
        case RegisterRead(register=register):
            return machine.registers[register]
        case Broadcast(value=value, lanes=lanes):
            return np.repeat(_value(value, machine), lanes)
        case Lanes(values=parts):
            return np.concatenate(list(_values(parts, machine)))
        case ExtractLane(value=value, lane=lane):
            return _value(value, machine)[lane : lane + 1]
        case Binary(op=op, left=left, right=right):
            return _lanes(_BINARY[op](*_values((left, right), machine)))
        case MultiplyAdd(left=left, right=right, addend=addend):
            one, other, total = _values((left, right, addend), machine)
            return _lanes(np.add(np.multiply(one, other), total))
        case Bytes(values=parts):
            numbers = np.concatenate(list(_values(parts, machine)))
            return _lanes(np.clip(numbers, 0, 255).astype(np.uint8).view(np.int32))
        case Halves(value=value, odd=odd):
            held = _value(value, machine).view(np.int8).reshape(-1, 4)[:, int(odd) :: 2]
            return np.ascontiguousarray(held.astype(np.int16)).view(np.int32).reshape(-1)
        case DotBytes(left=left, right=right):
            one, other = _values((left, right), machine)
            return _dot(one, other, np.uint8)
        case DotPairs(left=left, right=right):
            one, other = _values((left, right), machine)
            return _dot(one, other, np.int16)
        case DotQuads(left=left, right=right, addend=addend, bytes=bytes_):
            one, other, total = _values((left, right, addend), machine)
            return _lanes(np.add(_quads(one, other, bytes_), total))
        case Compare(op=compare, left=left, right=right):
            holds = _lanes(_COMPARE[compare](*_values((left, right), machine)))
            return holds.astype(np.int32) * (1 if holds.size == 1 else -1)
        case Shuffle(left=left, right=right, lanes=lanes):
            return np.concatenate(list(_values((left, right), machine)))[list(lanes)]
        case Select(condition=condition, then=then, otherwise=otherwise):
            chosen, one, other = _values((condition, then, otherwise), machine)
            return _lanes(np.where(chosen != 0, one, other))
        case Cast(value=value, dtype=dtype):
            return _converted(_value(value, machine), dtype)
        case Bitcast(value=value, dtype=dtype):
            return _value(value, machine).view(_TYPES[dtype])
        case Call(function=function, argument=argument):
            return _call(function, _value(argument, machine))
        case SubgroupReduce():
            return _reduced(expression, machine)
    raise unsupported(expression, "the interpreter")


def _dot(left: Value, right: Value, parts: type[np.generic]) -> Value:
    """The sum of products of the parts of each word; two i16 may wrap around as they sum."""
    left, right = (np.ascontiguousarray(side) for side in (left, right))
    return _summed(left.view(parts), right.view(parts), left.size)


def _summed(left: Value, right: Value, words: int) -> Value:
    products = np.multiply(left.astype(np.int64), right.astype(np.int64))
    return _lanes(products.reshape(words, -1).sum(axis=1).astype(np.int32))


def _quads(left: Value, right: Value, bytes_: RightBytes) -> Value:
    """Raises UnsupportedProgram where engines may disagree on right bytes of 7 bits."""
    left, right = (np.ascontiguousarray(side) for side in (left, right))
    if bytes_ is not RightBytes.SEVEN_BITS:
        parts = np.uint8 if bytes_ is RightBytes.U8 else np.int8
        return _summed(left.view(np.int8), right.view(parts), left.size)
    one, other = (side.view(np.int8).astype(np.int64) for side in (left, right))
    pairs = (one * other).reshape(-1, 2).sum(axis=1)
    if other.min() < 0 or pairs.min() < -(1 << 15) or pairs.max() >= 1 << 15:
        raise UnsupportedProgram("a dot of quads has a right byte below 0, or pairs beyond an i16")
    return _dot(left, right, np.int8)


def _converted(value: Value, dtype: DType) -> Value:
    """Floats out of range become the nearest i32 and NaN becomes 0, as trunc_sat does."""
    if dtype is DType.I32 and value.dtype.kind == "f":
        smallest, largest = DType.I32.value_range
        value = np.clip(np.nan_to_num(value.astype(np.float64), nan=0.0), smallest, largest)
    return value.astype(_TYPES[dtype])


def _call(function: MathFunction, argument: Value) -> Value:
    """The function in float64, rounded to float32."""
    with np.errstate(all="ignore"):
        return _lanes(_IN_DOUBLE[function](argument.astype(np.float64))).astype(np.float32)


def _lanes(result: object) -> Value:
    return np.asarray(result)
