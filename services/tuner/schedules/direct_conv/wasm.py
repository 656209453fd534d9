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
from services.tuner.ir.affine import Affine
from services.tuner.ir.build import (
    constant,
    f32_buffer,
    numbers,
    plus,
    serial,
    splat,
    store_vector,
    times,
    total,
    vector,
    vector_at,
)
from services.tuner.ir.nodes import (
    LANES,
    Allocate,
    Block,
    Buffer,
    Load,
    Program,
    Scope,
    Statement,
)
from services.tuner.passes.pipeline import PassOptions
from services.tuner.schedules.base.finish import stored_entry
from services.tuner.schedules.base.parameters import parameters_of
from services.tuner.schedules.base.scheduled import ScheduledProgram
from services.tuner.schedules.base.window_rows import WindowRow
from services.tuner.schedules.direct_conv.config import WasmDirectConvConfig


def lower(candidate: Candidate) -> ScheduledProgram:
    config = WasmDirectConvConfig.of(candidate)
    return ScheduledProgram(
        nests=(direct_program(candidate.workload, config),),
        options=PassOptions(fma=config.fma),
    )


def direct_program(workload: Workload, config: WasmDirectConvConfig) -> Program:
    """The loop nest; its parameters are those of the workload, flat."""
    a, b, *_ = parameters = parameters_of(workload)
    row = WindowRow.of(workload, config.tile_x)
    nest = _Nest(workload=workload, tile_o=config.tile_o, row=row, a=a, b=b)
    return row.program(parameters, partial(_tile, nest))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Nest:
    """What all steps know: a row of the output, and the tensors."""

    workload: Workload
    tile_o: int
    row: WindowRow
    a: Buffer
    b: Buffer

    @property
    def vectors(self) -> int:
        """Vectors of channels of a pixel in a tile."""
        return self.tile_o // LANES

    @property
    def channel(self) -> Affine:
        """The first channel of a tile."""
        return Affine.of(0, {"o1": self.tile_o})


def _tile(nest: _Nest, pixels: range, move: Affine) -> Block:
    vectors = range(nest.vectors * len(pixels))
    sums = f32_buffer("sums", LANES * len(vectors), Scope.LOCAL)
    # 1. Zeros.
    start = [store_vector(sums, place, numbers(0)) for place in vectors]
    # 2. Rows of the window that the image has.
    window = nest.row.window(partial(_products, nest, sums, pixels, move))
    # 3. The entries with the epilogue.
    stores = [vector("lane", _stored(nest, sums, pixels, move, place)) for place in vectors]
    body: Block = (Allocate(buffer=sums, body=(*start, *window, *stores)),)
    return serial("o1", nest.row.extent["o"] // nest.tile_o, body)


def _products(
    nest: _Nest, sums: Buffer, pixels: range, move: Affine, line: Affine, r: Affine
) -> Block:
    """The products of one row of the window: of each of its entries with all pixels."""
    e = nest.row.extent
    row = nest.row.image.times(e["h"]).plus(line).times(e["w"])
    found: list[Statement] = []
    for tap in range(e["kw"] * e["c"]):
        q, k = divmod(tap, e["c"])
        held = r.times(e["kw"] * e["c"]).plus(constant(tap)).times(e["o"]).plus(nest.channel)
        for number, x in enumerate(pixels):
            column = nest.row.column(x) + q
            if not 0 <= column < e["w"]:
                continue
            place = total(row, move.times(e["stride"]), constant(column))
            entry = splat(Load(buffer=nest.a, index=place.times(e["c"]).plus(constant(k))))
            for part in range(nest.vectors):
                at = held.plus(constant(LANES * part))
                weights = Load(buffer=nest.b, index=at, lanes=LANES)
                own = number * nest.vectors + part
                value = plus(vector_at(sums, own), times(entry, weights))
                found.append(store_vector(sums, own, value))
    return tuple(found)


def _stored(nest: _Nest, sums: Buffer, pixels: range, move: Affine, place: int) -> Statement:
    number, part = divmod(place, nest.vectors)
    lane = Affine.variable("lane")
    channel = total(nest.channel, constant(LANES * part), lane)
    at = (nest.row.image, nest.row.y, move.plus(constant(pixels[number])), channel)
    return stored_entry(
        nest.workload, at, Load(buffer=sums, index=constant(LANES * place).plus(lane))
    )
