"""Lists the families of this folder, and tells which programs each takes."""

from services.tuner.schedules.base.family import wasm_family, webgpu_family
from services.tuner.schedules.base.iteration import IterationSpace
from services.tuner.schedules.base.quantised import FEW_ROWS_WEBGPU, quantised_product
from services.tuner.schedules.quantised_matmul.config import unpacks
from services.tuner.schedules.quantised_matmul.space import wasm_quantised_matmul_configs
from services.tuner.schedules.quantised_matmul.webgpu_space import quantised_matmul_configs


def _multiplies_quantised(space: IterationSpace) -> bool:
    """Products with quantised weights of many rows, as they are."""
    product = quantised_product(space.program)
    return product is not None and product.norm is None and product.m > FEW_ROWS_WEBGPU


def _unpacks_weights(space: IterationSpace) -> bool:
    """True of a quantised product whose weights are unpacked four rows at a time."""
    product = quantised_product(space.program)
    return product is not None and unpacks(product)


# Language models do not run in JavaScript, so that nobody would run it there.
FAMILIES = (
    wasm_family("quantised_matmul", _unpacks_weights, wasm_quantised_matmul_configs, programs=True),
    webgpu_family(
        "quantised_matmul", _multiplies_quantised, quantised_matmul_configs, programs=True
    ),
)
