"""Lists the family of this folder, and tells which programs it takes."""

from services.tuner import ir
from services.tuner.schedules.base.family import webgpu_family
from services.tuner.schedules.base.integer_product import integer_product
from services.tuner.schedules.base.iteration import IterationSpace
from services.tuner.schedules.dot_matmul.webgpu_space import dot_matmul_configs


def _multiplies_words(space: IterationSpace) -> bool:
    """True of a product whose rows are whole vectors of words, of weights without zero points,
    whose entries are stored one by one and not as bytes."""
    if not space.named:
        return False
    product = integer_product(space.program)
    if product is None or product.b_zero or product.step:
        return False
    return product.words % ir.LANES == 0


FAMILIES = (webgpu_family("dot_matmul", _multiplies_words, dot_matmul_configs),)
