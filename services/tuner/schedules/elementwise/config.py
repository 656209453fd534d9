"""The settings of one kernel that makes every entry from a few others."""

from dataclasses import dataclass
from typing import ClassVar

from kernelzoo.domain.workload import Workload
from services.tuner.schedules.base.wasm_config import WasmConfig

MAX_VECTORS = 8
CHUNKS = (64, 256, 1024, 4096)


@dataclass(frozen=True, slots=True, kw_only=True)
class WasmElementwiseConfig(WasmConfig):
    """The innermost loop takes `vectors` of four lanes; a lone loop is sliced by `chunk`."""

    family: ClassVar = "elementwise"
    vectors: int
    chunk: int

    def fault(self, _: Workload) -> str:
        if not 1 <= self.vectors <= MAX_VECTORS:
            return f"vectors={self.vectors} must be from 1 to {MAX_VECTORS}"
        if self.chunk not in CHUNKS:
            return f"chunk={self.chunk} must be one of {', '.join(map(str, CHUNKS))}"
        return ""
