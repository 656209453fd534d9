"""Products of integers for WebGPU: a thread makes a tile of entries from vectors of four words.

    range       workgroups of `threads` tiles, along n first
    loop body   a vector of words of tile_m rows and of tile_n columns: of each the first bytes,
                then the second ones and so on, are multiplied and summed in four lanes

Rows and columns behind the last are those again, and are not stored. A word of a has bytes from 0
to 255, one of b bytes with sign. What it makes of one entry of matmul_u8i8:f32:m1k32n64:

    for vector < 2:
      sums[0 +4] += ((a[4·vector +4] >> 8·e) & 255) · ((b[8·j + 4·vector +4] << 24 - 8·e) >> 24)
                                                                      for each byte e of four
    c[j] = real(the lanes of sums - a_zero · b_sum[j]) · (a_scale · b_scale[j])
"""

from collections.abc import Iterator

from kernelzoo.domain.candidate import Candidate
from kernelzoo.domain.dtype import DType
from kernelzoo.domain.operators.integer_products import ACTIVATION_BITS, PER_WORD, ZERO_POINTS
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
from services.tuner.schedules.integer_matmul.webgpu_config import WebgpuIntegerMatmulConfig

LAST_BYTE = ACTIVATION_BITS * (PER_WORD - 1)
"""Bits of a word before its last byte."""


def lower(candidate: Candidate) -> ScheduledProgram:
    config = WebgpuIntegerMatmulConfig.of(candidate)
    workload = candidate.workload
    product, held = integer_product_of(workload), held_by(workload)
    b = ir.parameter(product.b, product.n * product.words, DType.I32)
    parameters = with_parameter(parameters_of(workload), b)
    program = _program(config, product, held, b, parameters)
    return ScheduledProgram(nests=(program,))


def _program(
    config: WebgpuIntegerMatmulConfig,
    product: IntegerProduct,
    held: Held,
    b: ir.Buffer,
    parameters: tuple[ir.Buffer, ...],
) -> ir.Program:
    tile_m, tile_n, words = config.tile_m, config.tile_n, product.words
    a = held[product.a][0]
    frame = ir.Frame()
    tiles = (("tile_m", -(-product.m // tile_m)), ("tile_n", -(-product.n // tile_n)))
    item, exists, groups = frame.item("item", tiles[0][1] * tiles[1][1], config.threads)
    first_row, first_column = frame.delinearize(item, tiles)

    def places(name: str, first: ir.Affine, tile: int, extent: int) -> list[ir.Affine]:
        inside = [first * tile + at for at in range(tile)]
        if frame.upper_bound(inside[-1]) < extent:
            return inside
        return [frame.least(f"{name}{at}", place, extent - 1) for at, place in enumerate(inside)]

    rows = places("row", first_row, tile_m, product.m)
    columns = places("column", first_column, tile_n, product.n)
    sums = ir.tile("sums", tile_m, tile_n, dtype=DType.I32)
    row_sums, a_words = (ir.tile(name, tile_m, dtype=DType.I32) for name in ("row_sums", "a_words"))
    b_words, b_bytes = (ir.tile(name, tile_n, dtype=DType.I32) for name in ("b_words", "b_bytes"))
    a_bytes = ir.tile("a_bytes", 1, dtype=DType.I32)
    vector = ir.affine(vector=ir.LANES) if words > ir.LANES else ir.ZERO

    def steps() -> Iterator[ir.Store]:
        for number, place in enumerate(rows):
            yield a_words.store(number, a.vector(place * words + vector))
        for number, place in enumerate(columns):
            yield b_words.store(number, b.vector(place * words + vector))
        for byte in range(PER_WORD):
            bits = byte * ACTIVATION_BITS
            for column in range(tile_n):
                # Up to the highest byte and down again: a shift to the right fills with the sign.
                left = b_words[column]
                left_most = left << LAST_BYTE - bits if bits < LAST_BYTE else left
                yield b_bytes.store(column, left_most >> LAST_BYTE)
            for row in range(tile_m):
                lowest = a_words[row] >> bits if bits else a_words[row]
                yield a_bytes.store(0, lowest & (ZERO_POINTS - 1))
                if product.b_zero:
                    yield row_sums.add(row, a_bytes[0])
                for column in range(tile_n):
                    yield sums.add((row, column), a_bytes[0] * b_bytes[column])

    body: ir.Block = (
        *sums.fill(0),
        *(row_sums.fill(0) if product.b_zero else ()),
        *ir.serial("vector", words // ir.LANES, tuple(steps())),
        *_stored(config, product, held, frame, (first_row, first_column), sums, row_sums),
    )
    body = ir.under(exists, body)
    local = (sums, row_sums, a_words, b_words, a_bytes, b_bytes)
    return frame.dispatch(parameters, (groups, config.threads), body, local=local)


def _stored(
    config: WebgpuIntegerMatmulConfig,
    product: IntegerProduct,
    held: Held,
    frame: ir.Frame,
    first: tuple[ir.Affine, ir.Affine],
    sums: ir.Tile,
    row_sums: ir.Tile,
) -> Iterator[ir.Statement]:
    output, _ = list(held.values())[-1]
    buffers = {name: buffer for name, (buffer, _) in held.items()}
    i, j = product.axes
    zero = buffers[product.a_zero][0]
    for at_row in range(config.tile_m):
        for at_column in range(config.tile_n):
            row, column = first[0] * config.tile_m + at_row, first[1] * config.tile_n + at_column
            inside = (row.below(product.m), column.below(product.n))
            total = ir.all_lanes(sums[at_row, at_column])
            total = total - zero * buffers[product.b_sum][column]
            if product.b_zero:
                own = ir.all_lanes(row_sums[at_row]) - zero * product.k
                total = total - buffers[product.b_zero][column] * own
            scales = buffers[product.a_scale][0] * buffers[product.b_scale][column]
            made = {product.scaled: total.cast(DType.F32) * scales}
            value = entry_value(product.value, {i.name: row, j.name: column}, held, made)
            yield from frame.where(inside, (output.store(row * product.n + column, value),))
