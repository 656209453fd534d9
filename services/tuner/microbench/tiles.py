"""The inner loop of a contraction on one register tile."""

from dataclasses import dataclass

from services.tuner.codegen.wasm.function import FunctionBuilder
from services.tuner.codegen.wasm.instructions import local, memory, plain
from services.tuner.ir.nodes import LANES
from services.tuner.microbench.loops import (
    DATA,
    VECTOR_BYTES,
    advance,
    iterations,
    module,
    point,
    pointer,
    stepping,
    vectors,
)

PADDING_BYTES = 64
"""Behind a, so that b begins in another cache line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TileLoop:
    """c[rows, columns] += a[rows, k]·b[k, columns], with a packed.

    A row of b begins `row_bytes` after the one before. Sums, a splat, a row of b and a product fit
    into the 15 vectors that V8 uses on x86.
    """

    rows: int
    columns: int
    k: int
    unroll_k: int
    row_bytes: int
    combined_splat: bool
    fma: bool

    @property
    def flops(self) -> int:
        return 2 * self.rows * self.columns * self.k

    @property
    def end(self) -> int:
        """First address behind a and b."""
        return self._b + self.k * self.row_bytes

    @property
    def _a_bytes(self) -> int:
        """Of one k."""
        return 4 * self.rows

    @property
    def _a_end(self) -> int:
        return DATA + self._a_bytes * self.k

    @property
    def _b(self) -> int:
        return self._a_end + PADDING_BYTES

    @property
    def _row_vectors(self) -> int:
        return self.columns // LANES

    def module(self) -> bytes:
        return module(self._write)

    def _write(self, function: FunctionBuilder) -> list[int]:
        sums = vectors(function, self.rows * self._row_vectors, 0.0)
        splat, *row = vectors(function, 1 + self._row_vectors, 0.0)
        a, a_end, b = pointer(function), pointer(function), pointer(function)
        point(function, a_end, self._a_end)

        def steps() -> None:
            for step in range(self.unroll_k):
                self._step(function, step, (a, b), (splat, row), sums)
            advance(function, b, self.unroll_k * self.row_bytes)

        def body() -> None:
            point(function, a, DATA)
            point(function, b, self._b)
            stepping(function, a, a_end, self.unroll_k * self._a_bytes, steps)

        iterations(function, body)
        return sums

    def _step(
        self,
        function: FunctionBuilder,
        step: int,
        pointers: tuple[int, int],
        operands: tuple[int, list[int]],
        sums: list[int],
    ) -> None:
        (a, b), (splat, row) = pointers, operands
        for j, vector in enumerate(row):
            function.get(b)
            function.emit(memory("v128.load", 4, step * self.row_bytes + j * VECTOR_BYTES))
            function.set(vector)
        for i in range(self.rows):
            self._splat(function, a, step * self._a_bytes + 4 * i)
            function.set(splat)
            for j, vector in enumerate(row):
                self._accumulate(function, (splat, vector), sums[i * self._row_vectors + j])

    def _splat(self, function: FunctionBuilder, a: int, offset: int) -> None:
        function.emit(local("local.get", a))
        if self.combined_splat:
            function.emit(memory("v128.load32_splat", 2, offset))
            return
        function.emit(memory("f32.load", 2, offset))
        function.emit(plain("f32x4.splat"))

    def _accumulate(self, function: FunctionBuilder, factors: tuple[int, int], total: int) -> None:
        for factor in factors:
            function.get(factor)
        if not self.fma:
            function.emit(plain("f32x4.mul"))
        function.get(total)
        function.emit(plain("f32x4.relaxed_madd" if self.fma else "f32x4.add"))
        function.set(total)
