"""Products of integers for WebGPU by dot products of four bytes, in the blocks, tiles and steps of
`schedules/matmul/webgpu.py`, where k counts words.

The dot product is of bytes without sign. With b' = b + 128, which is b with the highest bit of each
byte turned as its words are read,

    Σ p · b = Σ p · b' - 128 · Σ p

A thread sums p of each row of its tile by dot products with ones, and takes those sums away before
it shares its own with others (sliced_k, split_k). All is exact modulo 2^32, as the sum is an i32.
"""

from dataclasses import dataclass

from kernelzoo.domain.candidate import Candidate
from kernelzoo.domain.dtype import DType
from kernelzoo.domain.workload import Workload
from services.tuner import ir
from services.tuner.schedules.base.entry import entry_value
from services.tuner.schedules.base.integer_product import IntegerProduct, integer_product_of
from services.tuner.schedules.base.parameters import (
    Held,
    held_by,
    parameters_of,
    with_parameter,
)
from services.tuner.schedules.base.scheduled import ScheduledProgram
from services.tuner.schedules.dot_matmul.webgpu_config import (
    WebgpuDotMatmulConfig,
    extents_in_words,
)
from services.tuner.schedules.matmul.webgpu import Operand, Product, RowSums, product_programs

SIGN_BITS = -0x7F7F7F80
"""The highest bit of each byte."""
ONES = 0x01010101
MIDDLE = 128


def lower(candidate: Candidate) -> ScheduledProgram:
    config = WebgpuDotMatmulConfig.of(candidate)
    return ScheduledProgram(nests=_programs(candidate.workload, config))


def _programs(workload: Workload, config: WebgpuDotMatmulConfig) -> tuple[ir.Program, ...]:
    given, held = integer_product_of(workload), held_by(workload)
    b = ir.parameter(given.b, given.n * given.words, DType.I32)
    product = _WordProduct(
        extents=extents_in_words(given),
        parameters=with_parameter(parameters_of(workload), b),
        dtype=DType.I32,
        row_sums=RowSums(other=ONES, factor=MIDDLE),
        given=given,
        held=held,
    )
    matrix = held[given.a][0]
    operand_a = Operand(buffer=matrix, extent=given.m, k=given.words, k_outer=False)
    operand_b = Operand(buffer=b, extent=given.n, k=given.words, k_outer=False, flipped=SIGN_BITS)
    return product_programs(product, operand_a, operand_b, config)


@dataclass(frozen=True, slots=True, kw_only=True)
class _WordProduct(Product):
    given: IntegerProduct
    held: Held

    def stored(self, at: tuple[ir.Affine, ...], value: ir.Expression) -> ir.Store:
        """Stores the sum less what its zero point adds, times its scales, with the epilogue."""
        given, (_, row, column) = self.given, at
        buffers = {name: buffer for name, (buffer, _) in self.held.items()}
        total = value - buffers[given.a_zero][0] * buffers[given.b_sum][column]
        scales = buffers[given.a_scale][0] * buffers[given.b_scale][column]
        made = {given.scaled: total.cast(DType.F32) * scales}
        i, j = given.axes
        entry = entry_value(given.value, {i.name: row, j.name: column}, self.held, made)
        return self.parameters[-1].store(row * given.n + column, entry)

    def term(self, a: ir.Expression, b: ir.Expression) -> ir.Expression:
        return ir.DotBytes(left=a, right=b)
