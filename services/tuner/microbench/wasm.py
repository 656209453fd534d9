"""The suite of wasm: primitives, each in its base and its advanced setting (nnJIT section 5.1), the
limit of one core, and a stream. docs/adr/0009 says which primitives are not in it, and why.

A probe exports `main(bytes, lo, hi)` and does its work hi - lo times. It reads from `DATA` on,
where the caller leaves zeros, and stores the sum of what it computed to `OUT`, 16 bytes, so that
engines leave nothing out. Only streams look at `bytes`.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from services.tuner.codegen.wasm.function import FunctionBuilder
from services.tuner.codegen.wasm.instructions import (
    ValueType,
    branch,
    i32_const,
    local,
    memory,
    plain,
    structured,
    vector_const,
)
from services.tuner.codegen.wasm.module import assemble
from services.tuner.ir.nodes import LANES
from services.tuner.microbench.probe import Probe

SUITE = 3
"""Version of the suite: raise it when a probe, a margin, or the order of the list changes. Those of
WebGPU begin at 101."""

SIMD = ("simd128",)
RELAXED = ("relaxed-simd", "simd128")

ALIASING_BYTES = 4096
"""Rows this far apart fall into one set of a first cache with 64 sets of 64 bytes."""

OUT = 0
DATA = 64
VECTOR_BYTES = 16


# What all probes are written with: loops, and sums that keep work alive.


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


# Sums of products in registers alone: fma or not, and with it the limit of one core.

CHAINS = 13
"""Accumulators. With the operand and a product they fill the 15 vectors that V8 uses on x86."""

ROUNDS = 4
"""Steps of every chain in one iteration, so that the loop itself does not count."""

FLOPS = ROUNDS * CHAINS * 2 * LANES

OPERAND = 2.0**-27
"""Products with it are lost in rounding: accumulators stay 1 however long a probe runs."""


def _sums_of_products(step: tuple[str, ...]) -> bytes:
    """Every step adds to one accumulator the product of its neighbour and the operand.

    The neighbour changes, or engines would take the product out of the loop. It changed a round
    ago, so products and sums both find their operands ready: on Zen 4, where products and sums have
    units of their own, independent chains of each reached 80 % of the limit.
    """

    def write(function: FunctionBuilder) -> list[int]:
        (operand,) = vectors(function, 1, OPERAND)
        chains = vectors(function, CHAINS, 1.0)

        def body() -> None:
            for _ in range(ROUNDS):
                for chain, neighbour in zip(chains, (*chains[1:], chains[0]), strict=True):
                    _accumulate(function, step, chain, neighbour, operand)

        iterations(function, body)
        return chains

    return module(write)


def _accumulate(
    function: FunctionBuilder, step: tuple[str, ...], chain: int, neighbour: int, operand: int
) -> None:
    """chain + neighbour·operand: the sum is last, so both settings take the same operands."""
    for index in (neighbour, operand):
        function.emit(local("local.get", index))
    *product, accumulate = (plain(name) for name in step)
    for instruction in product:
        function.emit(instruction)
    function.emit(local("local.get", chain))
    function.emit(accumulate)
    function.set(chain)


# The inner loop of a matrix product on one register tile.

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
        """The bytes of a for one k."""
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


# One load of each cache line and nothing else: how fast a working set of one size arrives. With
# whole lines, 128-bit loads are the limit of the first and of the second cache alike (133 GB/s on
# Zen 5); with one load a line, the first gives 525 GB/s of lines and the second 130 to 200.

LINE_BYTES = 64
STREAM_CHAINS = 8


def stream() -> bytes:
    """Each iteration passes once over `bytes` bytes, a multiple of 512."""

    def write(function: FunctionBuilder) -> list[int]:
        sums = vectors(function, STREAM_CHAINS, 0.0)
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
            stepping(function, at, end, STREAM_CHAINS * LINE_BYTES, loads)

        iterations(function, body)
        return sums

    return module(write)


# The suite.


@dataclass(frozen=True, slots=True, kw_only=True)
class WasmSetting:
    """`requires` are target features; `flops` are those of one iteration.

    It reads zeros below address `end`.
    """

    requires: tuple[str, ...]
    flops: int
    end: int
    body: bytes


def suite() -> tuple[Probe[WasmSetting], ...]:
    """Lists probes in the order of the bits of the primitive vector.

    Margins lie between what was measured and a tie, at least a seventh above a tie: docs/adr/0009.
    Sums and products are two instructions where fma is faster, and in units of their own where it
    is a tie.
    """
    square = TileLoop(
        rows=4, columns=8, k=128, unroll_k=1, row_bytes=32, combined_splat=True, fma=False
    )
    wide = replace(square, rows=5)
    tall = replace(square, rows=8, columns=4, row_bytes=16, unroll_k=4)
    return (
        Probe(
            primitive="fma",
            margin=1.15,
            base=_tile(wide),
            advanced=_tile(replace(wide, fma=True)),
        ),
        Probe(
            primitive="load_splat",
            margin=1.2,
            base=_tile(replace(tall, combined_splat=False)),
            advanced=_tile(tall),
        ),
        Probe(
            primitive="pack",
            margin=1.5,
            base=_tile(replace(square, row_bytes=ALIASING_BYTES)),
            advanced=_tile(square),
        ),
    )


def peaks() -> tuple[WasmSetting, WasmSetting]:
    """The limit of one core in 128-bit WebAssembly, with products and sums apart and with fma."""
    apart = _sums_of_products(("f32x4.mul", "f32x4.add"))
    fused = _sums_of_products(("f32x4.relaxed_madd",))
    return (
        WasmSetting(requires=SIMD, flops=FLOPS, end=DATA, body=apart),
        WasmSetting(requires=RELAXED, flops=FLOPS, end=DATA, body=fused),
    )


def _tile(loop: TileLoop) -> WasmSetting:
    requires = RELAXED if loop.fma else SIMD
    return WasmSetting(requires=requires, flops=loop.flops, end=loop.end, body=loop.module())
