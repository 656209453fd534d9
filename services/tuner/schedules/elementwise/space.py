"""The lite space of loops as they are stated: of operators that make every entry from a few others,
and of programs that nothing else schedules."""

from kernelzoo.domain.workload import PROGRAM, Workload
from services.tuner.passes.vectorise import CHUNK
from services.tuner.schedules.base.ranking import by_rank, ranked
from services.tuner.schedules.elementwise.config import WasmElementwiseConfig

VECTORS = (2, 1, 4, 8)
"""Vectors of an elementwise operator at once; functions keep their parts in registers."""

CHUNKS = (256, 1024, 64, 4096)
"""Entries of an elementwise operator to a slice of the range."""


def wasm_elementwise_configs(workload: Workload) -> tuple[WasmElementwiseConfig, ...]:
    """Ordered by the sum of the ranks of their settings. Of named operators only functions have
    products to round. Only what runs over one axis is cut into chunks."""
    rounds = workload.operator is PROGRAM or bool(workload.operator.functions)
    chunks = CHUNKS if len(workload.output.shape) == 1 else (CHUNK,)
    roundings = (True, False) if rounds else (False,)
    points = (
        (WasmElementwiseConfig(vectors=vectors, chunk=chunk, fma=fma), rank)
        for rank, fma, chunk, vectors in ranked(roundings, chunks, VECTORS)
    )
    return by_rank(points, workload)
