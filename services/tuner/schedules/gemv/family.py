"""Lists the families of this folder, and tells which programs each takes."""

from services.tuner.schedules.base.family import wasm_family, with_javascript
from services.tuner.schedules.base.iteration import IterationSpace, contraction
from services.tuner.schedules.gemv.config import MAX_M
from services.tuner.schedules.gemv.space import wasm_gemv_configs


def _streams_b(space: IterationSpace) -> bool:
    """A contraction of few rows, no batch and b as it is, which one pass over b computes."""
    product = contraction(space)
    return (
        product is not None
        and not product.batch
        and not product.b_transposed
        and product.nest.size(product.m) <= MAX_M
    )


FAMILIES = with_javascript(wasm_family("gemv", _streams_b, wasm_gemv_configs, programs=True))
