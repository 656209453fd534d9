"""One load of each cache line and nothing else: how fast a working set of one size arrives.

With whole lines, 128-bit loads are the limit of the first and of the second cache alike (133 GB/s
on Zen 5); with one load a line, the first gives 525 GB/s of lines and the second 130 to 200.
"""

from services.tuner.codegen.wasm.function import FunctionBuilder
from services.tuner.codegen.wasm.instructions import memory, plain
from services.tuner.microbench.loops import (
    DATA,
    iterations,
    module,
    point,
    pointer,
    stepping,
    vectors,
)

LINE_BYTES = 64
CHAINS = 8


def lines() -> bytes:
    """Each iteration passes once over `bytes` bytes, a multiple of 512."""

    def write(frame: FunctionBuilder) -> list[int]:
        sums = vectors(frame, CHAINS, 0.0)
        at, end = pointer(frame), pointer(frame)
        point(frame, end, DATA)
        frame.get(end)
        frame.get(frame.parameter("bytes"))
        frame.emit(plain("i32.add"))
        frame.set(end)

        def loads() -> None:
            for i, total in enumerate(sums):
                frame.get(at)
                frame.emit(memory("v128.load", 4, i * LINE_BYTES))
                frame.get(total)
                frame.emit(plain("f32x4.add"))
                frame.set(total)

        def body() -> None:
            point(frame, at, DATA)
            stepping(frame, at, end, CHAINS * LINE_BYTES, loads)

        iterations(frame, body)
        return sums

    return module(write)
