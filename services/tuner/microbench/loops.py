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
    frame = FunctionBuilder(("bytes", "lo", "hi"))
    sums = write(frame)
    frame.emit(i32_const(OUT))
    first, *others = sums
    frame.get(first)
    for other in others:
        frame.get(other)
        frame.emit(plain("f32x4.add"))
    frame.emit(memory("v128.store", 2, 0))
    return assemble(frame.function())


def vectors(frame: FunctionBuilder, count: int, value: float) -> list[int]:
    """New locals that hold `value` in all lanes."""
    made = [frame.fresh(ValueType.V128) for _ in range(count)]
    for index in made:
        frame.emit(vector_const(value))
        frame.set(index)
    return made


def pointer(frame: FunctionBuilder) -> int:
    return frame.fresh(ValueType.I32)


def point(frame: FunctionBuilder, index: int, address: int) -> None:
    frame.emit(i32_const(address))
    frame.set(index)


def advance(frame: FunctionBuilder, index: int, by: int) -> None:
    frame.get(index)
    frame.add_constant(by)
    frame.set(index)


def iterations(frame: FunctionBuilder, body: Callable[[], None]) -> None:
    """Runs `body` hi - lo times."""
    low, high = frame.parameter("lo"), frame.parameter("hi")
    frame.emit(structured("block"))
    frame.get(low)
    frame.get(high)
    frame.emit(plain("i32.ge_u"))
    frame.emit(branch("br_if", 0))
    frame.emit(structured("loop"))
    body()
    advance(frame, low, 1)
    frame.get(low)
    frame.get(high)
    _repeat_if_below(frame)
    frame.emit(plain("end"))


def stepping(
    frame: FunctionBuilder, index: int, end: int, step: int, body: Callable[[], None]
) -> None:
    """Runs `body`, then moves pointer `index` by `step`, until it reaches the address in local
    `end`; at least once.
    """
    frame.emit(structured("loop"))
    body()
    advance(frame, index, step)
    frame.get(index)
    frame.get(end)
    _repeat_if_below(frame)


def _repeat_if_below(frame: FunctionBuilder) -> None:
    frame.emit(plain("i32.lt_u"))
    frame.emit(branch("br_if", 0))
    frame.emit(plain("end"))
