"""Settings of all families for WebAssembly do this alike: they are read, held to their workload,
and made into a candidate."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar, Self

from kernelzoo.domain.candidate import Candidate
from kernelzoo.domain.workload import Workload
from services.tuner.ir.nodes import LANES
from services.tuner.schedules.base.settings import BASE, RELAXED, CandidateSettings, wasm_candidate

MAX_TILE_ELEMENTS = 128
MAX_UNROLL_K = 8
MAX_UNROLLED_PRODUCTS = 512
MAX_PANEL_COLUMNS = 512
MAX_SCRATCH_BYTES = 1 << 26


class Pack(StrEnum):
    """Kernels read b in one of these ways: in place, copied into panels of `tile_n` columns inside
    the kernel, or already lying so, for weights that stay the same: a pack kernel has copied them
    before."""

    NONE = "none"
    KERNEL = "kernel"
    PREPACKED = "prepacked"


def tile_fault(rows: int, columns: int, unrolled: int) -> str:
    """The fault of sums of so many rows and columns in registers of WebAssembly, and a loop body
    that adds products of `unrolled` terms to each."""
    if rows * columns > MAX_TILE_ELEMENTS or columns % LANES:
        return (
            f"a register tile of {rows}x{columns} must have columns in multiples of {LANES} and at "
            f"most {MAX_TILE_ELEMENTS} entries"
        )
    if unrolled > MAX_UNROLL_K or rows * columns * unrolled > MAX_UNROLLED_PRODUCTS:
        return (
            f"{unrolled} unrolled terms are too many; use at most {MAX_UNROLL_K}, and "
            f"{MAX_UNROLLED_PRODUCTS} products in the loop body"
        )
    return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class WasmConfig(ABC):
    """Settings of one family for WebAssembly; a family adds a field for each of them. `fma` lets
    products and sums round once."""

    family: ClassVar[str]
    fma: bool

    @classmethod
    def of(cls, candidate: Candidate) -> Self:
        """Raises InvalidSchedule for a config that is no schedule of its workload."""
        settings = CandidateSettings(candidate, cls)
        config = settings.config
        settings.refuse_fault(config.fault(candidate.workload))
        settings.refuse_features(config.requires)
        return config

    @abstractmethod
    def fault(self, workload: Workload) -> str:
        """Says what makes the config unusable, or ''. Every check is cheap: nothing is compiled
        yet."""

    @property
    def requires(self) -> tuple[str, ...]:
        """The features that its kernels need, sorted."""
        return RELAXED if self.fma else BASE

    def candidate(self, workload: Workload) -> Candidate:
        return wasm_candidate(workload, self, self.requires)
