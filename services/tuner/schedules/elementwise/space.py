"""The lite space of operators that make every entry from a few others."""

from itertools import product

from kernelzoo.domain.operators.elementwise import UNARY
from kernelzoo.domain.workload import Workload
from services.tuner.passes.vectorise import CHUNK
from services.tuner.schedules.base.rules import MAP_CHUNKS, MAP_VECTORS
from services.tuner.schedules.elementwise.config import MapConfig


def map_configs(workload: Workload) -> tuple[MapConfig, ...]:
    """Ordered by the sum of the ranks of their settings. Only functions have products to round,
    and only what runs over one axis is cut into chunks."""
    function = workload.operator.name in UNARY and workload.operator.name != "relu"
    chunks = MAP_CHUNKS if len(workload.operator.axes) == 1 else (CHUNK,)
    roundings = (True, False) if function else (False,)
    ranked: dict[MapConfig, int] = {}
    for (fma_rank, fma), (chunk_rank, chunk), (rank, vectors) in product(
        enumerate(roundings), enumerate(chunks), enumerate(MAP_VECTORS)
    ):
        config = MapConfig(vectors=vectors, chunk=chunk, fma=fma)
        ranked[config] = fma_rank + chunk_rank + rank
    return tuple(sorted(ranked, key=ranked.__getitem__))
