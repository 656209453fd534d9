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

    def _write(self, frame: FunctionBuilder) -> list[int]:
        sums = vectors(frame, self.rows * self._row_vectors, 0.0)
        splat, *row = vectors(frame, 1 + self._row_vectors, 0.0)
        a, a_end, b = pointer(frame), pointer(frame), pointer(frame)
        point(frame, a_end, self._a_end)

        def steps() -> None:
            for step in range(self.unroll_k):
                self._step(frame, step, (a, b), (splat, row), sums)
            advance(frame, b, self.unroll_k * self.row_bytes)

        def body() -> None:
            point(frame, a, DATA)
            point(frame, b, self._b)
            stepping(frame, a, a_end, self.unroll_k * self._a_bytes, steps)

        iterations(frame, body)
        return sums

    def _step(
        self,
        frame: FunctionBuilder,
        step: int,
        pointers: tuple[int, int],
        operands: tuple[int, list[int]],
        sums: list[int],
    ) -> None:
        (a, b), (splat, row) = pointers, operands
        for j, vector in enumerate(row):
            frame.get(b)
            frame.emit(memory("v128.load", 4, step * self.row_bytes + j * VECTOR_BYTES))
            frame.set(vector)
        for i in range(self.rows):
            self._splat(frame, a, step * self._a_bytes + 4 * i)
            frame.set(splat)
            for j, vector in enumerate(row):
                self._accumulate(frame, (splat, vector), sums[i * self._row_vectors + j])

    def _splat(self, frame: FunctionBuilder, a: int, offset: int) -> None:
        frame.emit(local("local.get", a))
        if self.combined_splat:
            frame.emit(memory("v128.load32_splat", 2, offset))
            return
        frame.emit(memory("f32.load", 2, offset))
        frame.emit(plain("f32x4.splat"))

    def _accumulate(self, frame: FunctionBuilder, factors: tuple[int, int], total: int) -> None:
        for factor in factors:
            frame.get(factor)
        if not self.fma:
            frame.emit(plain("f32x4.mul"))
        frame.get(total)
        frame.emit(plain("f32x4.relaxed_madd" if self.fma else "f32x4.add"))
        frame.set(total)
