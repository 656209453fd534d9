"""Ways from one scheduled function to a kernel: our passes one after the other, and LLVM."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from bench.workloads import BenchCase
from fixtures.wasm_space import common_space
from kernelzoo.domain.artifact import Artifact
from kernelzoo.domain.candidate import Candidate
from services.tuner.compile import compilation
from services.tuner.passes.pipeline import PassSwitches
from services.tuner.schedules.base.wasm_config import Pack
from services.tuner.schedules.matmul.config import Outer, WasmMatmulConfig

Compile = Callable[[Candidate], Artifact]

NONE = PassSwitches(
    offset_immediate=False, load_splat=False, scalar_replacement=False, strength_reduction=False
)
STEPS = {
    "none": NONE,
    "+offset_immediate": replace(NONE, offset_immediate=True),
    "+load_splat": replace(NONE, offset_immediate=True, load_splat=True),
    "+scalar_replacement": replace(
        NONE, offset_immediate=True, load_splat=True, scalar_replacement=True
    ),
    "+strength_reduction": PassSwitches(),
}
"""Each adds one pass to the one before."""

ALL_STEPS = "+strength_reduction"
CONVENTIONAL = "llvm"


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """One workload under one schedule. `candidate` fuses nothing, so that all paths compute the
    same."""

    case: BenchCase
    schedule: str
    candidate: Candidate


def subjects(case: BenchCase) -> tuple[Subject, ...]:
    """`plain`: a tile of 4x8, b in place; `default`: the kernel that unknown devices get."""
    space = common_space(case.workload)
    default = next(each for each in space if "relaxed-simd" not in each.requires)
    plain = PLAIN.candidate(case.workload)
    return (
        Subject(case=case, schedule="plain", candidate=plain),
        Subject(case=case, schedule="default", candidate=default),
    )


PLAIN = WasmMatmulConfig(
    tile_m=4,
    tile_n=8,
    unroll_k=1,
    block_m=32,
    block_n=64,
    pack=Pack.NONE,
    fma=False,
    outer=Outer.ROWS,
)
"""Its blocks divide K0 to K3."""


def our_paths() -> dict[str, Compile]:
    return {name: _compiler(switches) for name, switches in STEPS.items()}


def _compiler(switches: PassSwitches) -> Compile:
    return lambda candidate: compilation(candidate, switches).artifact
