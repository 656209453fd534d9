"""The settings of a kernel of attention over a cache on WebAssembly."""

from dataclasses import dataclass
from typing import ClassVar

from kernelzoo.domain.operators.decoding import LANES, AttentionShape, attention_shape
from kernelzoo.domain.operators.expressions import Program
from kernelzoo.domain.operators.prefill import block_attention_shape
from kernelzoo.domain.workload import Workload
from services.tuner.schedules.base.wasm_config import WasmConfig

MAX_SUMS = 12
"""Vectors of sums in registers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WasmDecodeAttentionConfig(WasmConfig):
    """A slice has `heads` that share a key and a value, and mixes `vectors` of four entries of
    values at once."""

    family: ClassVar = "decode_attention"
    heads: int
    vectors: int

    def fault(self, workload: Workload) -> str:
        shape, _ = attended_rows(workload)
        if self.heads < 1 or shape.shared % self.heads:
            return f"heads={self.heads} must divide the {shape.shared} heads of a key"
        if self.vectors < 1 or shape.head_dim % (LANES * self.vectors):
            return f"vectors={self.vectors} of {LANES} entries must divide {shape.head_dim}"
        if max(LANES, self.vectors) * self.heads > MAX_SUMS:
            return f"heads={self.heads} and vectors={self.vectors} make more than {MAX_SUMS} sums"
        return ""


def attended_rows(workload: Workload) -> tuple[AttentionShape, int]:
    """The shape of an attention over a cache, and its rows. Raises ValueError for anything else."""
    found = cache_attention(workload.program)
    if found is None:
        raise ValueError(f"{workload.key} is no attention over a cache")
    return found


def cache_attention(program: Program) -> tuple[AttentionShape, int] | None:
    """The attention of one token or a block of them that a program is, with its rows; None for any
    other, and where vectors would not fit: tokens of the cache are read four at a time."""
    one = attention_shape(program)
    found = block_attention_shape(program) if one is None else (one, 1)
    if found is None:
        return None
    shape, _ = found
    fits = shape.head_dim % (2 * LANES) == 0 and shape.length % LANES == 0
    return found if fits else None
