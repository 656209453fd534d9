"""A WebAssembly loop that reads and does nothing else: the limit of what memory bounds."""

from services.tuner.codegen.wasm.function import FunctionBuilder
from services.tuner.codegen.wasm.instructions import (
    ValueType,
    branch,
    i32_const,
    local,
    memory,
    plain,
    structured,
)
from services.tuner.codegen.wasm.module import assemble

VECTORS = 32
SUMS = 8
STEP_BYTES = 16 * VECTORS


def reading_module() -> bytes:
    """`main(source, sink, lo, hi)` reads steps lo to hi of `source` and writes a sum to `sink`.

    Eight sums of four cycles each leave room for two loads a cycle.
    """
    frame = FunctionBuilder(("source", "sink", "lo", "hi"))
    sums = [frame.fresh(ValueType.V128) for _ in range(SUMS)]
    pointer = _pointer(frame)
    frame.emit(structured("loop"))
    for vector in range(VECTORS):
        _join(frame, sums[vector % SUMS], pointer, 16 * vector)
    _next(frame, pointer)
    frame.emit(plain("end"))
    _store(frame, sums)
    return assemble(frame.function())


def _pointer(frame: FunctionBuilder) -> int:
    pointer = frame.fresh(ValueType.I32)
    frame.get(frame.parameter("source"))
    frame.add_product(frame.parameter("lo"), STEP_BYTES)
    frame.set(pointer)
    return pointer


def _join(frame: FunctionBuilder, into: int, pointer: int, offset: int) -> None:
    frame.get(pointer)
    frame.emit(memory("v128.load", 2, offset))
    frame.emit(local("local.get", into))
    frame.emit(plain("f32x4.add"))
    frame.set(into)


def _next(frame: FunctionBuilder, pointer: int) -> None:
    low = frame.parameter("lo")
    for index, step in ((pointer, STEP_BYTES), (low, 1)):
        frame.get(index)
        frame.emit(i32_const(step))
        frame.emit(plain("i32.add"))
        frame.set(index)
    frame.get(low)
    frame.get(frame.parameter("hi"))
    frame.emit(plain("i32.lt_u"))
    frame.emit(branch("br_if", 0))


def _store(frame: FunctionBuilder, sums: list[int]) -> None:
    frame.get(frame.parameter("sink"))
    frame.get(sums[0])
    for other in sums[1:]:
        frame.get(other)
        frame.emit(plain("f32x4.add"))
    frame.emit(memory("v128.store", 2, 0))
