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

    def write(function: FunctionBuilder) -> list[int]:
        sums = vectors(function, CHAINS, 0.0)
        at, end = pointer(function), pointer(function)
        point(function, end, DATA)
        function.get(end)
        function.get(function.parameter("bytes"))
        function.emit(plain("i32.add"))
        function.set(end)

        def loads() -> None:
            for i, total in enumerate(sums):
                function.get(at)
                function.emit(memory("v128.load", 4, i * LINE_BYTES))
                function.get(total)
                function.emit(plain("f32x4.add"))
                function.set(total)

        def body() -> None:
            point(function, at, DATA)
            stepping(function, at, end, CHAINS * LINE_BYTES, loads)

        iterations(function, body)
        return sums

    return module(write)
