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
    e, row = workload.extent, WindowRow.of(workload, config.tile_x)
    sums = ir.tile("sums", config.tile_x)
    channel, lane = ir.affine(c1=ir.LANES), ir.variable("lane")

    def tile(pixels: range, move: ir.Affine) -> ir.Block:
        def products(line: ir.Affine, r: ir.Affine) -> ir.Block:
            """The products of one row of the window, by columns of the image."""
            body: list[ir.Statement] = []
            first, last = row.column(pixels[0]), row.column(pixels[-1]) + e["kw"]
            for column in range(max(first, 0), min(last, e["w"])):
                place = (row.image * e["h"] + line) * e["w"] + move * e["stride"] + column
                pixel = a.vector(place * e["c"] + channel)
                for number, x in enumerate(pixels):
                    q = column - row.column(x)
                    if 0 <= q < e["kw"]:
                        weight = b.vector((r * e["kw"] + q) * e["c"] + channel)
                        body.append(sums.add(number, pixel * weight))
            return tuple(body)

        # 1. Zeros.
        body: list[ir.Statement] = [
            sums.store(number, ir.numbers(0)) for number, _ in enumerate(pixels)
        ]
        # 2. Rows of the window that the image has.
        body += row.window(products)
        # 3. The entries with the epilogue.
        for number, x in enumerate(pixels):
            at = (row.image, row.y, move + x, channel + lane)
            entry = stored_entry(workload, at, sums.lane(number, lane))
            body.append(ir.vector("lane", entry))
        block = ir.allocated((sums,), tuple(body))
        return ir.serial("c1", e["c"] // ir.LANES, block)

    return row.program(parameters, tile)
