"""The settings of one kernel that makes every entry from a few others."""

from dataclasses import dataclass
from typing import ClassVar, Self

from kernelzoo.domain.candidate import Candidate
from kernelzoo.domain.workload import Workload
from services.tuner.schedules.base.settings import Settings, wasm_candidate

MAX_VECTORS = 8
CHUNKS = (64, 256, 1024, 4096)


@dataclass(frozen=True, slots=True, kw_only=True)
class WasmElementwiseConfig:
    """The innermost loop takes `vectors` of four lanes; a lone loop is sliced by `chunk`."""

    family: ClassVar = "elementwise"
    vectors: int
    chunk: int
    fma: bool

    @classmethod
    def of(cls, candidate: Candidate) -> Self:
        """Raises InvalidSchedule for a config that is no schedule of its workload."""
        settings = Settings(candidate, cls)
        config = settings.config
        settings.refuse(config.fault(), fma=config.fma)
        return config

    def candidate(self, workload: Workload) -> Candidate:
        return wasm_candidate(workload, self, fma=self.fma)

    def fault(self) -> str:
        """What makes the config unusable, or ''."""
        if not 1 <= self.vectors <= MAX_VECTORS:
            return f"vectors={self.vectors} must be from 1 to {MAX_VECTORS}"
        if self.chunk not in CHUNKS:
            return f"chunk={self.chunk} must be one of {', '.join(map(str, CHUNKS))}"
        return ""
