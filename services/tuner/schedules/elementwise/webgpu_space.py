"""The space of operators that make every entry from a few others: entries to a thread, threads."""

from collections.abc import Iterator
from itertools import product

from kernelzoo.domain.gpu import GpuModel
from kernelzoo.domain.workload import Workload
from services.tuner import ir
from services.tuner.passes.thread_binding import Stride
from services.tuner.schedules.base.ranking import by_rank
from services.tuner.schedules.elementwise.pointwise import pointwise
from services.tuner.schedules.elementwise.webgpu_config import WebgpuElementwiseConfig

MOST_CANDIDATES = 40
THREADS = (256, 64, 128, 32)
VECTORS = (1, 2, 4, 8)
STRIDES = (Stride.BLOCK, Stride.GRID, Stride.NEXT)
SINGLE = 3
"""Rank of a thread that makes single entries, where it could make four: for small outputs, whose
vectors are too few for all threads."""


def elementwise_configs(workload: Workload, gpu: GpuModel) -> tuple[WebgpuElementwiseConfig, ...]:
    """Ordered by the sum of the ranks of their settings. Whole warps first: with fewer threads than
    a warp has lanes, some do nothing."""
    return by_rank(_points(workload, gpu), workload)[:MOST_CANDIDATES]


def _points(workload: Workload, gpu: GpuModel) -> Iterator[tuple[WebgpuElementwiseConfig, int]]:
    """None makes less than one entry, or four, in every round of a thread."""
    counts = sorted(THREADS, key=lambda count: count % gpu.warp_lanes > 0)
    for (rank, threads), (more, vectors), (far, stride), (narrow, vec4) in product(
        enumerate(counts), enumerate(VECTORS), enumerate(STRIDES), enumerate(_widths(workload))
    ):
        lanes = ir.LANES if vec4 else 1
        if vectors > 1 and lanes * vectors * threads > workload.output.elements:
            continue
        if vectors == 1 and stride is not STRIDES[0]:
            continue
        config = WebgpuElementwiseConfig(threads=threads, vectors=vectors, vec4=vec4, stride=stride)
        yield config, rank + more + far + SINGLE * narrow


def _widths(workload: Workload) -> tuple[bool, ...]:
    """Single entries too where four are certain to be possible: elsewhere both may be the same."""
    return (True, False) if pointwise(workload.program) else (True,)
