"""The settings of one kernel that takes values in order: none, as there is one way to do it."""

from dataclasses import dataclass
from typing import ClassVar

from kernelzoo.domain.workload import Workload
from services.tuner.schedules.base.wasm_config import WasmConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class WasmOrderedConfig(WasmConfig):
    """Nothing is multiplied and added, so that nothing is rounded once."""

    family: ClassVar = "ordered"

    def fault(self, _: Workload) -> str:
        return "fma=true changes nothing; say false" if self.fma else ""
