"""The settings of a kernel of attention while decoding."""

from dataclasses import dataclass
from typing import ClassVar

from kernelzoo.domain.dtype import DType
from kernelzoo.domain.operators.decoding import LANES, AttentionShape, attention_shape
from kernelzoo.domain.workload import Workload
from kernelzoo.errors import InvalidSchedule
from services.tuner.schedules.base.faults import power_fault, range_fault
from services.tuner.schedules.base.limits import MAX_THREADS
from services.tuner.schedules.base.row_threads import shared_bytes
from services.tuner.schedules.base.webgpu_config import WebgpuConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class WebgpuDecodeAttentionConfig(WebgpuConfig):
    """A workgroup of `threads` has one head and one of `parts` of the tokens that it sees; a second
    dispatch joins the parts. Threads add up by `subgroups` or through workgroup memory."""

    family: ClassVar = "decode_attention"
    threads: int
    parts: int
    subgroups: bool

    def tokens(self, shape: AttentionShape) -> int:
        """Tokens of the cache that one workgroup reads, at most."""
        return -(-shape.span // self.parts)

    def fault(self, workload: Workload) -> str:
        shape = shape_of(workload)
        if self.threads % (shape.head_dim // LANES):
            return (
                f"threads={self.threads} must be a multiple of head_dim / {LANES} = "
                f"{shape.head_dim // LANES}"
            )
        return power_fault("threads", self.threads, 32, MAX_THREADS) or range_fault(
            "parts", self.parts, 1, shape.span
        )

    def workgroup_bytes_for(self, workload: Workload) -> int:
        shape = shape_of(workload)
        entries = self.tokens(shape) + 3 * shape.head_dim + LANES * self.threads
        sums = 2 * shared_bytes(self.threads, 1, 1, subgroups=self.subgroups)
        return entries * DType.F32.size_bytes + sums


def shape_of(workload: Workload) -> AttentionShape:
    found = attention_shape(workload.program)
    if found is None:
        raise InvalidSchedule(f"{workload.key} is no attention of one token over its cache")
    return found
