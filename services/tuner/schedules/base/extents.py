"""The extents of a contraction, whatever operator it comes from."""

from dataclasses import dataclass
from typing import Self

from kernelzoo.domain.dtype import DType
from kernelzoo.domain.operators import EPILOGUES, EpilogueKind, Family
from kernelzoo.domain.workload import Workload
from kernelzoo.errors import UnsupportedProgram

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Extents:
    """c[batch, m, n] = Σ_k a[batch, m, k]·b[batch, k, n]; batch 0 means that there is no axis.

    A turned matrix lies in memory with its last two axes the other way. A constant b may be wanted
    in panels. The epilogue is applied to every entry of c.
    """

    batch: int
    m: int
    k: int
    n: int
    a_turned: bool = False
    b_turned: bool = False
    b_dtype: DType = DType.F32
    b_constant: bool = False
    epilogue: tuple[str, ...] = ()

    @classmethod
    def of(cls, workload: Workload) -> Self:
        """Raises UnsupportedProgram for an operator that is no such contraction."""
        extent, constant = workload.extent, "b" in workload.constant
        if is_pointwise(workload):
            return cls(
                batch=0,
                m=extent["b"] * extent["h"] * extent["w"],
                k=extent["c"],
                n=extent["o"],
                b_constant=constant,
                epilogue=workload.epilogue,
            )
        if workload.operator.family is not Family.CONTRACTION:
            raise UnsupportedProgram(
                f"operator {workload.operator.name} is no contraction; use matmul or batch_matmul"
            )
        (_, a), (_, b) = workload.operator.inputs
        return cls(
            batch=extent.get("b", 0),
            m=extent["m"],
            k=extent["k"],
            n=extent["n"],
            a_turned=a[-1] == "m",
            b_turned=b[-1] == "k",
            b_dtype=workload.tensors[1].dtype,
            b_constant=constant,
            epilogue=workload.epilogue,
        )

    @classmethod
    def of_weights(cls, workload: Workload) -> Self:
        """Those of a product whose b is that of the workload: weights of windows are a matrix
        with a row for each place in a window and input channel."""
        if workload.operator.name != "conv2d" or is_pointwise(workload):
            return cls.of(workload)
        return cls(batch=0, m=1, k=workload.reduction_length, n=workload.extent["o"])

    @property
    def shapes(self) -> tuple[Shape, ...]:
        """Of a, b, the inputs of the epilogue and c."""
        batch = (self.batch,) if self.batch else ()
        a = (self.k, self.m) if self.a_turned else (self.m, self.k)
        b = (self.n, self.k) if self.b_turned else (self.k, self.n)
        c = (*batch, self.m, self.n)
        return (*batch, *a), (*batch, *b), *epilogue_shapes(self.epilogue, c), c


def epilogue_shapes(epilogue: tuple[str, ...], output: Shape) -> tuple[Shape, ...]:
    shapes = {
        EpilogueKind.COLUMN: output[-1:],
        EpilogueKind.ENTRY: output,
        EpilogueKind.FACTOR: output[-1:],
        EpilogueKind.SCALAR: (1,),
    }
    return tuple(shapes[EPILOGUES[name]] for name in epilogue if EPILOGUES[name] in shapes)


def panel_shape(extents: Extents, width: int) -> Shape:
    """Of b in panels of `width` columns."""
    return -(-extents.n // width), extents.k, width


def is_pointwise(workload: Workload) -> bool:
    """A convolution of single pixels: the product of a matrix of pixels and one of weights."""
    if workload.operator.name != "conv2d":
        return False
    given = workload.given
    return (given["kh"], given["kw"], given["stride"], given["pad"]) == (1, 1, 1, 0)


def round_up(size: int, step: int) -> int:
    return -(-size // step) * step
