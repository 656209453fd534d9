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
    function = FunctionBuilder(("source", "sink", "lo", "hi"))
    sums = [function.fresh(ValueType.V128) for _ in range(SUMS)]
    pointer = _pointer(function)
    function.emit(structured("loop"))
    for vector in range(VECTORS):
        _join(function, sums[vector % SUMS], pointer, 16 * vector)
    _next(function, pointer)
    function.emit(plain("end"))
    _store(function, sums)
    return assemble(function.finish())


def _pointer(function: FunctionBuilder) -> int:
    pointer = function.fresh(ValueType.I32)
    function.get(function.parameter("source"))
    function.add_product(function.parameter("lo"), STEP_BYTES)
    function.set(pointer)
    return pointer


def _join(function: FunctionBuilder, into: int, pointer: int, offset: int) -> None:
    function.get(pointer)
    function.emit(memory("v128.load", 2, offset))
    function.emit(local("local.get", into))
    function.emit(plain("f32x4.add"))
    function.set(into)


def _next(function: FunctionBuilder, pointer: int) -> None:
    low = function.parameter("lo")
    for index, step in ((pointer, STEP_BYTES), (low, 1)):
        function.get(index)
        function.emit(i32_const(step))
        function.emit(plain("i32.add"))
        function.set(index)
    function.get(low)
    function.get(function.parameter("hi"))
    function.emit(plain("i32.lt_u"))
    function.emit(branch("br_if", 0))


def _store(function: FunctionBuilder, sums: list[int]) -> None:
    function.get(function.parameter("sink"))
    function.get(sums[0])
    for other in sums[1:]:
        function.get(other)
        function.emit(plain("f32x4.add"))
    function.emit(memory("v128.store", 2, 0))
