"""Lists the families of this folder, and tells which programs each takes."""

from kernelzoo.domain.workload import KEY_DTYPES
from services.tuner.schedules.base.family import wasm_family, webgpu_family, with_javascript
from services.tuner.schedules.base.implicit_gemm import gathered
from services.tuner.schedules.base.iteration import IterationSpace, contraction
from services.tuner.schedules.matmul.space import wasm_matmul_configs
from services.tuner.schedules.matmul.webgpu_space import matmul_configs


def _reads_vectors(space: IterationSpace) -> bool:
    """A product of matrices, stated as one or as a convolution, whose b is read as vectors."""
    product = contraction(space)
    if product is None:
        windows = gathered(space)
        product = windows.product if windows else None
    if product is None or product.b.dtype not in KEY_DTYPES:
        return False
    return product.epilogue is None or not product.epilogue.chooses


FAMILIES = (
    *with_javascript(wasm_family("matmul", contraction, wasm_matmul_configs, programs=True)),
    webgpu_family("matmul", _reads_vectors, matmul_configs, programs=True),
)
