"""The extents of a contraction, whatever operator it comes from."""

from dataclasses import dataclass
from typing import Self

from kernelzoo.domain.workload import Workload
from kernelzoo.errors import UnsupportedProgram


@dataclass(frozen=True, slots=True, kw_only=True)
class Extents:
    """c[batch, m, n] = Σ_k a[batch, m, k]·b[batch, k, n]; batch 0 means that there is no axis."""

    batch: int
    m: int
    k: int
    n: int

    @classmethod
    def of(cls, workload: Workload) -> Self:
        """Raises UnsupportedProgram for an operator that is no such contraction."""
        extent = workload.extent
        if workload.operator.name not in ("matmul", "batch_matmul"):
            raise UnsupportedProgram(
                f"operator {workload.operator.name} has no schedule; use matmul or batch_matmul"
            )
        return cls(batch=extent.get("b", 0), m=extent["m"], k=extent["k"], n=extent["n"])

    @property
    def shapes(self) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
        """Of a, b and c."""
        batch = (self.batch,) if self.batch else ()
        return (*batch, self.m, self.k), (*batch, self.k, self.n), (*batch, self.m, self.n)
