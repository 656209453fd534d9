"""What all probes are written with: `main(bytes, lo, hi)`, loops, sums that keep work alive.

A probe does its work hi - lo times. It reads from `DATA` on, where the caller leaves zeros, and
stores the sum of what it computed to `OUT`, 16 bytes. Only streams look at `bytes`.
"""

from collections.abc import Callable

from services.tuner.codegen.wasm.function import FunctionBuilder
from services.tuner.codegen.wasm.instructions import (
    ValueType,
    branch,
    i32_const,
    memory,
    plain,
    structured,
    vector_const,
)
from services.tuner.codegen.wasm.module import assemble

OUT = 0
DATA = 64
VECTOR_BYTES = 16


def module(write: Callable[[FunctionBuilder], list[int]]) -> bytes:
    """A probe from what `write` emits; it answers the vectors whose sum is stored at the end."""
    function = FunctionBuilder(("bytes", "lo", "hi"))
    sums = write(function)
    function.emit(i32_const(OUT))
    first, *others = sums
    function.get(first)
    for other in others:
        function.get(other)
        function.emit(plain("f32x4.add"))
    function.emit(memory("v128.store", 2, 0))
    return assemble(function.finish())


def vectors(function: FunctionBuilder, count: int, value: float) -> list[int]:
    """New locals that hold `value` in all lanes."""
    made = [function.fresh(ValueType.V128) for _ in range(count)]
    for index in made:
        function.emit(vector_const(value))
        function.set(index)
    return made


def pointer(function: FunctionBuilder) -> int:
    return function.fresh(ValueType.I32)


def point(function: FunctionBuilder, index: int, address: int) -> None:
    function.emit(i32_const(address))
    function.set(index)


def advance(function: FunctionBuilder, index: int, by: int) -> None:
    function.get(index)
    function.add_constant(by)
    function.set(index)


def iterations(function: FunctionBuilder, body: Callable[[], None]) -> None:
    """Runs `body` hi - lo times."""
    low, high = function.parameter("lo"), function.parameter("hi")
    function.emit(structured("block"))
    function.get(low)
    function.get(high)
    function.emit(plain("i32.ge_u"))
    function.emit(branch("br_if", 0))
    function.emit(structured("loop"))
    body()
    advance(function, low, 1)
    function.get(low)
    function.get(high)
    _repeat_if_below(function)
    function.emit(plain("end"))


def stepping(
    function: FunctionBuilder, index: int, end: int, step: int, body: Callable[[], None]
) -> None:
    """Runs `body`, then moves pointer `index` by `step`, until it reaches the address in local
    `end`; at least once.
    """
    function.emit(structured("loop"))
    body()
    advance(function, index, step)
    function.get(index)
    function.get(end)
    _repeat_if_below(function)


def _repeat_if_below(function: FunctionBuilder) -> None:
    function.emit(plain("i32.lt_u"))
    function.emit(branch("br_if", 0))
    function.emit(plain("end"))
