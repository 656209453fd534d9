"""The space of operators that make every entry from a few others: entries to a thread, threads."""

from itertools import product

from kernelzoo.domain.gpu import GpuModel
from kernelzoo.domain.workload import Workload
from services.tuner.space.gpu.contractions import FEW_LANES
from services.tuner.webgpu.entries import EntriesConfig
from services.tuner.webgpu.transpose import SquareConfig

THREADS = (256, 64, 128, 32)
VECTORS = (1, 2, 4, 8)
SQUARES = ((32, 256), (16, 64), (32, 128), (16, 128), (16, 256), (64, 256), (32, 64), (8, 64))


def entries_configs(workload: Workload, gpu: GpuModel) -> tuple[EntriesConfig, ...]:
    """Ordered by the sum of the ranks of their settings. Whole warps first: with fewer threads than
    a warp has lanes, some do nothing."""
    counts = sorted(THREADS, key=lambda count: count % gpu.warp_lanes > 0)
    entries = workload.output.elements
    vectors = [count for count in VECTORS if count == 1 or 4 * count * THREADS[-1] <= entries]
    ranked: dict[EntriesConfig, int] = {}
    for (rank, count), (vector_rank, vector) in product(enumerate(counts), enumerate(vectors)):
        config = EntriesConfig(threads=count, vectors=vector, wide=True)
        ranked[config] = rank + vector_rank
    single = EntriesConfig(threads=counts[0], vectors=1, wide=False)
    return (*sorted(ranked, key=ranked.__getitem__), single)


def square_configs(workload: Workload, gpu: GpuModel) -> tuple[SquareConfig | EntriesConfig, ...]:
    """Through workgroup memory first; on a processor as it is stated first."""
    squares = [SquareConfig(side=side, threads=threads) for side, threads in SQUARES]
    entries = entries_configs(workload, gpu)[:4]
    return (*entries, *squares) if gpu.warp_lanes < FEW_LANES else (*squares, *entries)
