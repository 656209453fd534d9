"""The lite space of recurrences on WebGPU: threads to a workgroup, columns to a thread."""

from itertools import product

from kernelzoo.domain.gpu import GpuModel
from kernelzoo.domain.operators.expressions import number
from kernelzoo.domain.operators.recurrence import step_product
from kernelzoo.domain.workload import Workload
from services.tuner import ir
from services.tuner.schedules.recurrence.webgpu_config import SHARED_BYTES, WebgpuRecurrenceConfig

THREADS = (256, 128, 64, 32)


def recurrence_configs(workload: Workload, _: GpuModel) -> tuple[WebgpuRecurrenceConfig, ...]:
    """Ordered by the sum of the ranks of their settings. Four columns to a thread come first where
    that leaves none of the most threads without any."""
    found = (step_product(workload.program, each) for each in workload.program.stages)
    columns = [number(each.n[-1].extent) for each in found if each]
    wide = max(columns, default=0) >= ir.LANES * max(THREADS)
    ranked: dict[WebgpuRecurrenceConfig, int] = {}
    alike: set[frozenset[str]] = set()
    for size_rank, size in enumerate(SHARED_BYTES):
        for (rank, threads), vec4 in product(
            enumerate(THREADS), (True, False) if columns else (False,)
        ):
            config = WebgpuRecurrenceConfig(threads=threads, vec4=vec4, shared_bytes=size)
            shared = config.shared(workload.program)
            if shared not in alike:
                ranked[config] = rank + 2 * (vec4 is not wide) + 2 * size_rank
        alike.add(shared)
    return tuple(sorted(ranked, key=ranked.__getitem__))
