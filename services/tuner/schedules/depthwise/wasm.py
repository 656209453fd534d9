"""Convolutions that keep channels apart, for wasm: windows of several pixels share what is loaded.

Shapes, named by the settings of `WasmDepthwiseConfig`:

    range         rows of the output
    tile          c[tile_x, 4], neighbouring pixels of a row and four channels, sums in registers
    loop body     a row of the window: (tile_x - 1) · stride + kw pixels of the image, each loaded
                  once for all windows that it is in, and kw weights

What it makes of depthwise_conv2d:f32:b1h6w8c8kh3kw3stride1pad1 with tile_x=4:

    for y < 6 range:
      for c1 < 2: …                                          the first tile, without its column -1
      for c1 < 2:                                            the last tile, without its column 8
        sums[16] = 0                                         1.
        for r < 3:
          if y + r - 1 in 0 … 5:
            sums[4·x …] += a[y + r - 1, 3 + x + q, …] · b[…] 2. x < 4, q < 3 unrolled
        c[…] = sums[…]                                       3.

Nothing is copied, as `schedules/conv` copies rows with their padding (`base/window_rows.py`).
Channels are the innermost loop, since neighbours in memory are channels.
"""

from dataclasses import dataclass
from functools import partial

from kernelzoo.domain.candidate import Candidate
from kernelzoo.domain.workload import Workload
from services.tuner import ir
from services.tuner.passes.pipeline import PassOptions
from services.tuner.schedules.base.finish import stored_entry
from services.tuner.schedules.base.parameters import parameters_of
from services.tuner.schedules.base.scheduled import ScheduledProgram
from services.tuner.schedules.base.window_rows import WindowRow
from services.tuner.schedules.depthwise.config import WasmDepthwiseConfig


def lower(candidate: Candidate) -> ScheduledProgram:
    config = WasmDepthwiseConfig.of(candidate)
    return ScheduledProgram(
        nests=(depthwise_program(candidate.workload, config),), options=PassOptions(fma=config.fma)
    )


def depthwise_program(workload: Workload, config: WasmDepthwiseConfig) -> ir.Program:
    """The loop nest; its parameters are those of the workload, flat."""
    a, b, *_ = parameters = parameters_of(workload)
    nest = _Nest(
        workload=workload,
        row=WindowRow.of(workload, config.tile_x),
        a=a,
        b=b,
        sums=ir.local("sums", ir.LANES * config.tile_x),
    )
    return nest.row.program(parameters, partial(_tile, nest))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Nest:
    """All steps know these: a row of the output, and the tensors."""

    workload: Workload
    row: WindowRow
    a: ir.Buffer
    b: ir.Buffer
    sums: ir.Buffer


def _tile(nest: _Nest, pixels: range, move: ir.Affine) -> ir.Block:
    sums = [ir.constant(ir.LANES * place) for place, _ in enumerate(pixels)]
    # 1. Zeros.
    zero = ir.numbers(0)
    start = [nest.sums.store(at, zero) for at in sums]
    # 2. Rows of the window that the image has.
    window = nest.row.window(partial(_products, nest, pixels, move))
    # 3. The entries with the epilogue.
    stores = [
        ir.vector("lane", _stored(nest, x, move, at)) for x, at in zip(pixels, sums, strict=True)
    ]
    body: ir.Block = (ir.Allocate(buffer=nest.sums, body=(*start, *window, *stores)),)
    return ir.serial("c1", nest.row.extent["c"] // ir.LANES, body)


def _products(
    nest: _Nest, pixels: range, move: ir.Affine, line: ir.Affine, r: ir.Affine
) -> ir.Block:
    """The products of one row of the window, by columns of the image."""
    e = nest.row.extent
    channel = ir.affine(c1=ir.LANES)
    row = (nest.row.image * e["h"] + line) * e["w"]
    found: list[ir.Statement] = []
    first, last = nest.row.column(pixels[0]), nest.row.column(pixels[-1]) + e["kw"]
    for column in range(max(first, 0), min(last, e["w"])):
        place = row + move * e["stride"] + column
        pixel = nest.a.vector(place * e["c"] + channel)
        for number, x in enumerate(pixels):
            q = column - nest.row.column(x)
            if not 0 <= q < e["kw"]:
                continue
            tap = (r * e["kw"] + q) * e["c"] + channel
            weight = nest.b.vector(tap)
            at = ir.constant(ir.LANES * number)
            held = nest.sums.vector(at)
            value = held + pixel * weight
            found.append(nest.sums.store(at, value))
    return tuple(found)


def _stored(nest: _Nest, x: int, move: ir.Affine, at: ir.Affine) -> ir.Store:
    lane = ir.variable("lane")
    channel = ir.affine(c1=ir.LANES) + lane
    place = (nest.row.image, nest.row.y, move + x, channel)
    return stored_entry(nest.workload, place, nest.sums[at + lane])
