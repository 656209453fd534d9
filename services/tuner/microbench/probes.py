"""The suite: primitives, each in its base and its advanced setting (nnJIT section 5.1), the limit
of one core, and a stream. docs/adr/0009 says which primitives are not in it, and why.
"""

from dataclasses import dataclass, replace

from services.tuner.microbench.loops import DATA
from services.tuner.microbench.registers import FLOPS, sums_of_products
from services.tuner.microbench.streams import lines
from services.tuner.microbench.tiles import TileLoop

SUITE = 3
"""Version of the suite: raise it when a probe, a margin, or the order of the list changes."""

SIMD = ("simd128",)
RELAXED = ("relaxed-simd", "simd128")

ALIASING_BYTES = 4096
"""Rows this far apart fall into one set of a first cache with 64 sets of 64 bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """`requires` are target features; `flops` are those of one iteration.

    It reads zeros below address `end`.
    """

    requires: tuple[str, ...]
    flops: int
    end: int
    body: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """Its bit is 1 where the advanced setting is at least `margin` times as fast as the base."""

    primitive: str
    margin: float
    base: Setting
    advanced: Setting


def suite() -> tuple[Probe, ...]:
    """In the order of the bits of the primitive vector.

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


def peaks() -> tuple[Setting, Setting]:
    """The limit of one core in 128-bit WebAssembly, with products and sums apart and with fma."""
    apart = sums_of_products(("f32x4.mul", "f32x4.add"))
    fused = sums_of_products(("f32x4.relaxed_madd",))
    return (
        Setting(requires=SIMD, flops=FLOPS, end=DATA, body=apart),
        Setting(requires=RELAXED, flops=FLOPS, end=DATA, body=fused),
    )


def stream() -> bytes:
    return lines()


def _tile(loop: TileLoop) -> Setting:
    requires = RELAXED if loop.fma else SIMD
    return Setting(requires=requires, flops=loop.flops, end=loop.end, body=loop.module())
