"""What all probes of GPUs are written with: two buffers, workgroups of threads, sums kept alive.

A probe reads `source`, which the caller leaves zero, and every thread stores one vector of four to
a place of its own in `sink`, so that its work is not left out.
"""

from kernelzoo.domain.dtype import DType
from services.tuner.ir.affine import Affine
from services.tuner.ir.nodes import (
    LANES,
    Allocate,
    Assign,
    Binary,
    BinaryOp,
    Block,
    Broadcast,
    Buffer,
    Const,
    Expression,
    ExtractLane,
    Load,
    Loop,
    LoopKind,
    MultiplyAdd,
    Program,
    Read,
    Register,
    Scope,
    Store,
)

GROUP, THREAD = "group", "thread"
SOURCE, SINK = "source", "sink"
GROUPS = 4096
"""Workgroups of a probe that is as wide as its caller likes: 64 threads each fill any GPU."""

ZERO = Const(value=0.0, dtype=DType.F32, lanes=LANES)


def source(size: int, *, half: bool = False) -> Buffer:
    """`size` counts elements."""
    dtype = DType.F16 if half else DType.F32
    return Buffer(name=SOURCE, scope=Scope.PARAMETER, dtype=dtype, size=size)


def sink(threads: int) -> Buffer:
    size = LANES * threads
    return Buffer(name=SINK, scope=Scope.PARAMETER, dtype=DType.F32, size=size)


def vector(name: str) -> Register:
    return Register(name=name, lanes=LANES)


def read(register: Register) -> Read:
    return Read(register=register)


def affine(constant: int = 0, **coefficients: int) -> Affine:
    return Affine.of(constant, coefficients)


def load(buffer: Buffer, index: Affine, lanes: int = LANES) -> Load:
    return Load(buffer=buffer, index=index, lanes=lanes)


def assign(register: Register, value: Expression) -> Assign:
    return Assign(register=register, value=value)


def store(buffer: Buffer, index: Affine, value: Expression) -> Store:
    return Store(buffer=buffer, index=index, value=value)


def spread(value: Expression, lane: int) -> Expression:
    """One lane in all four."""
    return Broadcast(value=ExtractLane(value=value, lane=lane), lanes=LANES)


def accumulate(total: Register, left: Expression, right: Expression) -> Assign:
    return assign(total, MultiplyAdd(left=left, right=right, addend=read(total)))


def sum_of(registers: list[Register]) -> Expression:
    first, *others = map(read, registers)
    total: Expression = first
    for other in others:
        total = Binary(op=BinaryOp.ADD, left=total, right=other)
    return total


def serial(var: str, extent: int, body: Block) -> Loop:
    return Loop(var=var, extent=extent, kind=LoopKind.SERIAL, body=body)


def place(threads: int) -> Affine:
    """The thread's own vector among those of all workgroups."""
    return affine(group=LANES * threads, thread=LANES)


def program(
    parameters: tuple[Buffer, ...],
    groups: int,
    threads: int,
    body: Block,
    shared: tuple[Buffer, ...] = (),
) -> Program:
    """`shared` are buffers of a workgroup."""
    inner: Block = (Loop(var=THREAD, extent=threads, kind=LoopKind.THREAD_INDEX, body=body),)
    for buffer in shared:
        inner = (Allocate(buffer=buffer, body=inner),)
    outer = Loop(var=GROUP, extent=groups, kind=LoopKind.RANGE, body=inner)
    return Program(parameters=parameters, body=outer)
