"""The extents of a contraction, whatever operator it comes from."""

from dataclasses import dataclass
from functools import lru_cache

from kernelzoo.domain.dtype import DType
from kernelzoo.domain.workload import Workload
from kernelzoo.errors import UnsupportedProgram
from services.tuner.schedules.base.epilogue import Epilogue
from services.tuner.schedules.base.iteration import contraction, implicit_gemm, iteration_space

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Extents:
    """c[batch, m, n] = Σ_k a[batch, m, k]·b[batch, k, n]; batch 0 means that there is no axis.

    A transposed matrix lies in memory with its last two axes the other way. A constant b may be
    wanted in panels. The epilogue is applied to every entry of c.
    """

    batch: int
    m: int
    k: int
    n: int
    a_transposed: bool = False
    b_transposed: bool = False
    b_dtype: DType = DType.F32
    b_constant: bool = False
    epilogue: Epilogue | None = None

    @classmethod
    def of(cls, workload: Workload) -> "Extents":
        """Raises UnsupportedProgram for an operator that is no such contraction. Axes of one kind
        are one axis here: rows of the product of single pixels are all pixels of all images."""
        return _extents(workload)

    @classmethod
    def of_weights(cls, workload: Workload) -> "Extents":
        """Returns the extents of a product whose b is that of the workload: weights of windows are
        a matrix with a row for each place in a window and input channel."""
        product = implicit_gemm(iteration_space(workload))
        if product is None:
            return cls.of(workload)
        return cls(batch=0, m=1, k=product.nest.size(product.k), n=product.nest.size(product.n))

    @property
    def shapes(self) -> tuple[Shape, ...]:
        """The shapes of a, b, the inputs of the epilogue and c."""
        batch = (self.batch,) if self.batch else ()
        a = (self.k, self.m) if self.a_transposed else (self.m, self.k)
        b = (self.n, self.k) if self.b_transposed else (self.k, self.n)
        c = (*batch, self.m, self.n)
        extra = self.epilogue.shapes(c) if self.epilogue else ()
        return (*batch, *a), (*batch, *b), *extra, c


@lru_cache(maxsize=1024)
def _extents(workload: Workload) -> Extents:
    """Remembered, as every config of a space asks for them."""
    product = contraction(iteration_space(workload))
    if product is None:
        raise UnsupportedProgram(f"{workload.key} is no contraction; use matmul or batch_matmul")
    size = product.nest.size
    return Extents(
        batch=size(product.batch) if product.batch else 0,
        m=size(product.m),
        k=size(product.k),
        n=size(product.n),
        a_transposed=bool(product.a_transposed),
        b_transposed=bool(product.b_transposed),
        b_dtype=product.b.dtype,
        b_constant=product.b.tensor in workload.constant,
        epilogue=product.epilogue,
    )


def panel_shape(extents: Extents, width: int) -> Shape:
    """The shape of b in panels of `width` columns."""
    return -(-extents.n // width), extents.k, width


def round_up(size: int, step: int) -> int:
    return -(-size // step) * step


def largest_divisor(count: int, *limits: int) -> int:
    """The largest divisor of `count` within every limit; 1 where a limit allows none."""
    limit = max(1, min(*limits, count))
    return next(d for d in range(limit, 0, -1) if count % d == 0)


@lru_cache(maxsize=1024)
def parameter_order(workload: Workload) -> tuple[int, ...]:
    """The place of each tensor of a contraction among the parameters of a template: a, b, the
    inputs of the epilogue, c."""
    product = contraction(iteration_space(workload))
    if product is None:
        return tuple(range(len(workload.tensors)))
    inputs = [tensor.name for tensor in workload.tensors[:-1]]
    places = {name: place for place, name in enumerate(product.operands)}
    return (*(places[name] for name in inputs), len(places))
