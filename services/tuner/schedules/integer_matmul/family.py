"""Lists the families of this folder, and tells which programs each takes."""

from services.tuner import ir
from services.tuner.schedules.base.family import wasm_family, webgpu_family
from services.tuner.schedules.base.integer_product import integer_product
from services.tuner.schedules.base.iteration import IterationSpace
from services.tuner.schedules.integer_matmul.space import wasm_integer_matmul_configs
from services.tuner.schedules.integer_matmul.webgpu_space import integer_matmul_configs


def _multiplies_integers(space: IterationSpace) -> bool:
    """True of a product of activations of 8 bits, which an operator names: its key tells how many
    bits weights have."""
    return space.named and integer_product(space.program) is not None


def _reads_vectors(space: IterationSpace) -> bool:
    """True of such a product whose rows are whole vectors of words, and whose entries are no
    bytes."""
    if not space.named:
        return False
    product = integer_product(space.program)
    return product is not None and product.words % ir.LANES == 0 and not product.step


FAMILIES = (
    wasm_family("integer_matmul", _multiplies_integers, wasm_integer_matmul_configs),
    webgpu_family("integer_matmul", _reads_vectors, integer_matmul_configs),
)
