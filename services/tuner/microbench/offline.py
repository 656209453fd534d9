"""The offline suite: each primitive of a large matmul, one variable at a time (nnJIT section 5.1).

Devices that agree on a primitive let the space fix it; where they differ, it depends on the device.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from kernelzoo.domain.candidate import Candidate
from kernelzoo.domain.workload import Workload
from services.tuner.passes.pipeline import ALL_PASSES, PassSwitches
from services.tuner.schedules.base.wasm_config import Pack
from services.tuner.schedules.gemv.config import WasmGemvConfig
from services.tuner.schedules.matmul.config import Outer, WasmMatmulConfig

WORKLOAD = "matmul:f32:m1024k1024n1024"
"""Beyond every second-level cache, rows of b 4 KiB apart, and 36 ms a run on one core of Zen 5."""

FEW_ROWS = "matmul:f32:m4k1024n1024"
"""Blocks of k are in the space of this: with few rows, sums of many columns pass through memory."""

MARGIN = 1.1
"""Settings closer than this are equal: best samples of one page differ by up to 3 %."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One way to compile and to run the workload, in `slices` calls on each of `threads`."""

    config: WasmMatmulConfig | WasmGemvConfig
    switches: PassSwitches = ALL_PASSES
    slices: int = 1
    threads: int = 1

    def candidate(self, workload: Workload) -> Candidate:
        return self.config.candidate(workload)


@dataclass(frozen=True, slots=True, kw_only=True)
class PrimitiveTrial:
    """`base` and `advanced` differ in one setting."""

    primitive: str
    base: Point
    advanced: Point
    workload: str = WORKLOAD


REFERENCE = WasmMatmulConfig(
    tile_m=4,
    tile_n=8,
    unroll_k=1,
    block_m=32,
    block_n=64,
    pack=Pack.KERNEL,
    fma=False,
    outer=Outer.COLUMNS,
)
"""Packed, so that the cache does not hide what the other primitives are worth."""


STREAMED = WasmGemvConfig(unroll_k=1, vectors=1, block_n=1024, fma=False)


def plan() -> tuple[PrimitiveTrial, ...]:
    """Every primitive of the spaces, each once."""
    reference = Point(config=REFERENCE)
    in_place = replace(REFERENCE, pack=Pack.NONE)
    return (
        _configs("pack", in_place, REFERENCE),
        _configs("reorder", in_place, replace(in_place, outer=Outer.ROWS)),
        _configs("cache_tile", replace(REFERENCE, block_m=4), REFERENCE),
        _configs("unroll", REFERENCE, replace(REFERENCE, unroll_k=4)),
        _configs("fma", REFERENCE, replace(REFERENCE, fma=True)),
        PrimitiveTrial(
            primitive="k_block",
            base=Point(config=STREAMED),
            advanced=Point(config=replace(STREAMED, unroll_k=8)),
            workload=FEW_ROWS,
        ),
        _passes("vectorize", replace(ALL_PASSES, vectorise=False)),
        _passes("cache_write", replace(ALL_PASSES, scalar_replacement=False)),
        _passes("load_splat", replace(ALL_PASSES, load_splat=False)),
        PrimitiveTrial(primitive="slices", base=reference, advanced=replace(reference, slices=16)),
        PrimitiveTrial(primitive="threads", base=reference, advanced=replace(reference, threads=2)),
    )


def _configs(primitive: str, base: WasmMatmulConfig, advanced: WasmMatmulConfig) -> PrimitiveTrial:
    return PrimitiveTrial(
        primitive=primitive, base=Point(config=base), advanced=Point(config=advanced)
    )


def _passes(primitive: str, without: PassSwitches) -> PrimitiveTrial:
    """A pass that is off in the base and on in the advanced setting."""
    reference = Point(config=REFERENCE)
    return PrimitiveTrial(
        primitive=primitive, base=replace(reference, switches=without), advanced=reference
    )


class Faster(StrEnum):
    """One setting of a primitive is faster on one device, or neither."""

    BASE = "base"
    EQUAL = "equal"
    ADVANCED = "advanced"


@dataclass(frozen=True, slots=True, kw_only=True)
class PrimitiveFinding:
    """`fixed` is the setting that all devices prefer; None where it depends on the device."""

    primitive: str
    ratios: Mapping[str, float]
    fixed: Faster | None


def faster(ratio: float) -> Faster:
    """From the time of the base over that of the advanced setting."""
    if ratio >= MARGIN:
        return Faster.ADVANCED
    return Faster.BASE if ratio <= 1 / MARGIN else Faster.EQUAL


def findings(reports: Mapping[str, Mapping[str, float]]) -> Sequence[PrimitiveFinding]:
    """The ratio of each primitive in `reports`, by device; primitives that all devices report.

    A device on which the settings are equal agrees with any other.
    """
    first, *others = reports.values()
    shared = [primitive for primitive in first if all(primitive in other for other in others)]
    return [
        _finding(primitive, {device: ratios[primitive] for device, ratios in reports.items()})
        for primitive in shared
    ]


def _finding(primitive: str, ratios: Mapping[str, float]) -> PrimitiveFinding:
    preferred = {faster(ratio) for ratio in ratios.values()}
    decided = preferred - {Faster.EQUAL}
    if len(decided) > 1:
        return PrimitiveFinding(primitive=primitive, ratios=ratios, fixed=None)
    return PrimitiveFinding(
        primitive=primitive, ratios=ratios, fixed=next(iter(decided), Faster.EQUAL)
    )
