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
from services.tuner.schedules.direct_conv.config import WasmDirectConvConfig


def lower(candidate: Candidate) -> ScheduledProgram:
    config = WasmDirectConvConfig.of(candidate)
    return ScheduledProgram(
        nests=(direct_program(candidate.workload, config),), options=PassOptions(fma=config.fma)
    )


def direct_program(workload: Workload, config: WasmDirectConvConfig) -> ir.Program:
    """The loop nest; its parameters are those of the workload, flat."""
    a, b, *_ = parameters = parameters_of(workload)
    row = WindowRow.of(workload, config.tile_x)
    nest = _Nest(workload=workload, tile_o=config.tile_o, row=row, a=a, b=b)
    return row.program(parameters, partial(_tile, nest))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Nest:
    """All steps know these: a row of the output, and the tensors."""

    workload: Workload
    tile_o: int
    row: WindowRow
    a: ir.Buffer
    b: ir.Buffer

    @property
    def vectors(self) -> int:
        """Vectors of channels of a pixel in a tile."""
        return self.tile_o // ir.LANES

    @property
    def channel(self) -> ir.Affine:
        """The first channel of a tile."""
        return ir.affine(o1=self.tile_o)


def _tile(nest: _Nest, pixels: range, move: ir.Affine) -> ir.Block:
    vectors = range(nest.vectors * len(pixels))
    sums = ir.local("sums", ir.LANES * len(vectors))
    # 1. Zeros.
    start = [sums.store(ir.LANES * place, ir.numbers(0)) for place in vectors]
    # 2. Rows of the window that the image has.
    window = nest.row.window(partial(_products, nest, sums, pixels, move))
    # 3. The entries with the epilogue.
    stores = [ir.vector("lane", _stored(nest, sums, pixels, move, place)) for place in vectors]
    body: ir.Block = (ir.Allocate(buffer=sums, body=(*start, *window, *stores)),)
    return ir.serial("o1", nest.row.extent["o"] // nest.tile_o, body)


def _products(
    nest: _Nest, sums: ir.Buffer, pixels: range, move: ir.Affine, line: ir.Affine, r: ir.Affine
) -> ir.Block:
    """The products of one row of the window: of each of its entries with all pixels."""
    e = nest.row.extent
    row = (nest.row.image * e["h"] + line) * e["w"]
    found: list[ir.Statement] = []
    for tap in range(e["kw"] * e["c"]):
        q, k = divmod(tap, e["c"])
        held = (r * (e["kw"] * e["c"]) + tap) * e["o"] + nest.channel
        for number, x in enumerate(pixels):
            column = nest.row.column(x) + q
            if not 0 <= column < e["w"]:
                continue
            place = row + move * e["stride"] + column
            entry = ir.splat(nest.a[place * e["c"] + k])
            for part in range(nest.vectors):
                at = held + ir.LANES * part
                weights = nest.b.vector(at)
                own = number * nest.vectors + part
                value = sums.vector(ir.LANES * own) + entry * weights
                found.append(sums.store(ir.LANES * own, value))
    return tuple(found)


def _stored(
    nest: _Nest, sums: ir.Buffer, pixels: range, move: ir.Affine, place: int
) -> ir.Statement:
    number, part = divmod(place, nest.vectors)
    lane = ir.variable("lane")
    channel = nest.channel + ir.LANES * part + lane
    at = (nest.row.image, nest.row.y, move + pixels[number], channel)
    return stored_entry(nest.workload, at, sums[ir.LANES * place + lane])
