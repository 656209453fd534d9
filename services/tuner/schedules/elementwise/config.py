"""The settings of one kernel that makes every entry from a few others."""

from dataclasses import dataclass
from typing import ClassVar

from kernelzoo.domain.workload import Workload
from services.tuner.schedules.base.faults import choice_fault, range_fault
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
        return range_fault("vectors", self.vectors, 1, MAX_VECTORS) or choice_fault(
            "chunk", self.chunk, CHUNKS
        )
