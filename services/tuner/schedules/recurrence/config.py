"""The settings of a recurrence on WebAssembly."""

from dataclasses import dataclass
from math import prod
from typing import ClassVar

from kernelzoo.domain.operators.expressions import Program
from kernelzoo.domain.operators.recurrence import outer_axes, step_product
from kernelzoo.domain.workload import Workload
from services.tuner.schedules.base.wasm_config import WasmConfig

MAX_SUMS = 12
"""Vectors of sums in registers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WasmRecurrenceConfig(WasmConfig):
    """A slice has `rows` neighbours of the innermost outer axis, as the texts of a batch, and sums
    `vectors` of four columns of each at once. With `packs` it copies its weights before the first
    step, so that it reads them one after another in each."""

    family: ClassVar = "recurrence"
    rows: int
    vectors: int
    packs: bool

    def fault(self, workload: Workload) -> str:
        most = most_rows(workload.program)
        if self.rows < 1 or most % self.rows:
            return f"rows={self.rows} must divide the {most} rows of a step"
        if self.vectors < 1 or self.rows * self.vectors > MAX_SUMS:
            return f"rows={self.rows} and vectors={self.vectors} make no sums, or over {MAX_SUMS}"
        return ""


def most_rows(program: Program) -> int:
    """Rows that a slice may have: one where each has weights of its own."""
    outer = program.output.shape[1 : 1 + outer_axes(program)]
    products = (step_product(program, stage) for stage in program.stages)
    apart = any(product and not product.m for product in products)
    return outer[-1] if outer and not apart else 1


def slices(program: Program, rows: int) -> int:
    return prod(program.output.shape[1 : 1 + outer_axes(program)]) // rows
