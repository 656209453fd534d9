"""Lists the families of this folder, and tells which programs each takes."""

from services.tuner.schedules.base.family import wasm_family, webgpu_family
from services.tuner.schedules.base.iteration import IterationSpace
from services.tuner.schedules.base.quantised import FEW_ROWS_WEBGPU, quantised_product
from services.tuner.schedules.quantised_gemv.config import streams
from services.tuner.schedules.quantised_gemv.space import wasm_quantised_gemv_configs
from services.tuner.schedules.quantised_gemv.webgpu_space import quantised_gemv_configs


def _streams_quantised(space: IterationSpace) -> bool:
    """A product of few rows with quantised weights."""
    product = quantised_product(space.program)
    return product is not None and product.m <= FEW_ROWS_WEBGPU


def _streams_quantised_words(space: IterationSpace) -> bool:
    """True of a quantised product whose weights are taken a whole vector of words at a time."""
    product = quantised_product(space.program)
    return product is not None and streams(product)


# Language models do not run in JavaScript, so that nobody would run it there.
FAMILIES = (
    wasm_family(
        "quantised_gemv", _streams_quantised_words, wasm_quantised_gemv_configs, programs=True
    ),
    webgpu_family("quantised_gemv", _streams_quantised, quantised_gemv_configs, programs=True),
)
