"""The settings of a kernel of attention of many rows whose keys several workgroups share."""

from dataclasses import dataclass
from typing import ClassVar

from kernelzoo.domain.workload import Workload
from services.tuner.schedules.attention.webgpu_config import WebgpuAttentionConfig

MOST_PARTS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class WebgpuSplitAttentionConfig(WebgpuAttentionConfig):
    """As of attention, but that a workgroup passes over one of `split_n` parts of the keys."""

    family: ClassVar = "split_attention"
    split_n: int

    @property
    def parts(self) -> int:
        return self.split_n

    def fault(self, workload: Workload) -> str:
        if not 2 <= self.split_n <= MOST_PARTS:
            return (
                f"split_n={self.split_n} must be 2 to {MOST_PARTS}; use attention for a whole one"
            )
        found = WebgpuAttentionConfig.fault(self, workload)
        if found:
            return found
        n = self.given(workload).n
        if (self.split_n - 1) * self.blocks(self.given(workload)) * self.block_n >= n:
            return f"{n} keys leave a part of split_n={self.split_n} without any"
        return ""
