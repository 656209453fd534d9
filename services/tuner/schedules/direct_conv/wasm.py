"""Convolutions of a few channels for wasm: windows read the image where it lies.

Shapes, named by the settings of `WasmDirectConvConfig`:

    range         rows of the output
    tile          c[tile_x, tile_o], neighbouring pixels of a row, sums in registers
    loop body     a row of the window: kw · c entries that lie side by side, each of them times
                  tile_o weights

What it makes of conv2d:f32:b1h8w8c3o16kh3kw3stride2pad1 with tiles of 2x8:

    for y < 4 range:
      for o1 < 2: …                                          the first tile, without its column -1
      for x1 < 1:                                            the tiles between both ends
        for o1 < 2:
          sums[16] = 0                                       1.
          for r < 3:
            if 2·y + r - 1 in 0 … 7:
              sums[8·x0 + …] += a[2·y + r - 1, …, k] · b[…]  2. k < 9, x0 < 2 unrolled
          c[…] = sums[…]                                     3.

The first layer of a network that sees pictures has three channels. `schedules/conv` copies its rows
entry by entry between zeros, which took a sixth of the time of 224x224 pixels (0.42 ms, and 0.355
without; V8 15.6, Zen 5); here nothing is copied (`base/window_rows.py`).
"""

from kernelzoo.domain.candidate import Candidate
from kernelzoo.domain.workload import Workload
from services.tuner import ir
from services.tuner.passes.pipeline import PassOptions
from services.tuner.schedules.base.finish import stored_entry
from services.tuner.schedules.base.parameters import parameters_of
from services.tuner.schedules.base.scheduled import ScheduledProgram
from services.tuner.schedules.base.window_rows import WindowRow
from services.tuner.schedules.direct_conv.config import WasmDirectConvConfig


def lower(candidate: Candidate) -> ScheduledProgram:
    config = WasmDirectConvConfig.of(candidate)
    return ScheduledProgram(
        nests=(direct_program(candidate.workload, config),), options=PassOptions(fma=config.fma)
    )


def direct_program(workload: Workload, config: WasmDirectConvConfig) -> ir.Program:
    """The loop nest; its parameters are those of the workload, flat."""
    a, b, *_ = parameters = parameters_of(workload)
    e, row = workload.extent, WindowRow.of(workload, config.tile_x)
    parts, lane = range(config.tile_o // ir.LANES), ir.variable("lane")
    channel = ir.affine(o1=config.tile_o)

    def tile(pixels: range, move: ir.Affine) -> ir.Block:
        sums = ir.tile("sums", len(pixels), len(parts))

        def products(line: ir.Affine, r: ir.Affine) -> ir.Block:
            """The products of one row of the window: of each of its entries with all pixels."""
            body: list[ir.Statement] = []
            for tap in range(e["kw"] * e["c"]):
                q, k = divmod(tap, e["c"])
                weights = (r * (e["kw"] * e["c"]) + tap) * e["o"] + channel
                for number, x in enumerate(pixels):
                    column = row.column(x) + q
                    if not 0 <= column < e["w"]:
                        continue
                    place = (row.image * e["h"] + line) * e["w"] + move * e["stride"] + column
                    entry = ir.splat(a[place * e["c"] + k])
                    for part in parts:
                        weight = b.vector(weights + ir.LANES * part)
                        body.append(sums.add((number, part), entry * weight))
            return tuple(body)

        # 1. Zeros. 2. Rows of the window that the image has.
        body: list[ir.Statement] = [*sums.fill(0), *row.window(products)]
        # 3. The entries with the epilogue.
        for number, x in enumerate(pixels):
            for part in parts:
                at = (row.image, row.y, move + x, channel + ir.LANES * part + lane)
                entry = stored_entry(workload, at, sums.lane((number, part), lane))
                body.append(ir.vector("lane", entry))
        block = ir.allocated((sums,), tuple(body))
        return ir.serial("o1", e["o"] // config.tile_o, block)

    return row.program(parameters, tile)
