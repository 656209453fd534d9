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
without; V8 15.6, Zen 5); here tiles at both ends of a row have bodies of their own, and the first
and last rows are split off by `passes/loop_partition.py`, as for `schedules/depthwise`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from kernelzoo.domain.candidate import Candidate
from kernelzoo.domain.workload import Workload
from services.tuner.ir.affine import Affine
from services.tuner.ir.build import (
    ZERO,
    Frame,
    constant,
    f32_buffer,
    loop,
    numbers,
    plus,
    serial,
    splat,
    store_vector,
    times,
    total,
    under,
    vector,
    vector_at,
)
from services.tuner.ir.nodes import (
    LANES,
    Allocate,
    Block,
    Bound,
    Buffer,
    Load,
    LoopKind,
    Program,
    Scope,
    Statement,
)
from services.tuner.passes.pipeline import PassOptions
from services.tuner.schedules.base.finish import stored_entry
from services.tuner.schedules.base.parameters import parameters_of
from services.tuner.schedules.base.scheduled import ScheduledProgram
from services.tuner.schedules.direct_conv.config import WasmDirectConvConfig


def lower(candidate: Candidate) -> ScheduledProgram:
    config = WasmDirectConvConfig.of(candidate)
    return ScheduledProgram(
        nests=(direct_program(candidate.workload, config),),
        options=PassOptions(fma=config.fma),
    )


def direct_program(workload: Workload, config: WasmDirectConvConfig) -> Program:
    """The loop nest; its parameters are those of the workload, flat."""
    e, frame = workload.extent, Frame()
    rows = e["b"] * e["y"]
    a, b, *_ = parameters = parameters_of(workload)
    image, y = frame.delinearize(frame.variable("row", rows), (("image", e["b"]), ("y", e["y"])))
    nest = _Nest(workload=workload, config=config, extent=e, image=image, y=y, a=a, b=b)
    body = frame.enclose(tuple(_row(nest, frame)))
    return Program(parameters=parameters, body=loop("row", rows, LoopKind.RANGE, body))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Nest:
    """What all steps know: the place of a row of the output, and the tensors."""

    workload: Workload
    config: WasmDirectConvConfig
    extent: Mapping[str, int]
    image: Affine
    y: Affine
    a: Buffer
    b: Buffer

    @property
    def vectors(self) -> int:
        """Vectors of channels of a pixel in a tile."""
        return self.config.tile_o // LANES

    @property
    def channel(self) -> Affine:
        """The first channel of a tile."""
        return Affine.of(0, {"o1": self.config.tile_o})

    def column(self, x: int) -> int:
        """The first column of the image that the window of a pixel of the output covers."""
        return x * self.extent["stride"] - self.extent["pad"]

    def is_whole(self, first: int) -> bool:
        """Whether all that a tile's windows cover lies in the image."""
        last = first + self.config.tile_x - 1
        end = self.column(last) + self.extent["kw"]
        return last < self.extent["x"] and self.column(first) >= 0 and end <= self.extent["w"]


def _row(nest: _Nest, frame: Frame) -> Iterable[Statement]:
    """The tiles at both ends of a row one by one, and a loop over those between them."""
    step, width = nest.config.tile_x, nest.extent["x"]
    firsts = range(0, width, step)
    whole = [first for first in firsts if nest.is_whole(first)]
    for first in firsts:
        if first not in whole:
            yield from _tile(nest, frame, range(first, min(first + step, width)), ZERO)
        elif first == whole[0]:
            move = frame.variable("x1", len(whole)).times(step)
            tile = _tile(nest, frame, range(first, first + step), move)
            yield from serial("x1", len(whole), tile)


def _tile(nest: _Nest, frame: Frame, pixels: range, move: Affine) -> Block:
    """`pixels` are columns of the output, moved by so many in a loop."""
    e, vectors = nest.extent, nest.vectors
    sums = f32_buffer("sums", LANES * vectors * len(pixels), Scope.LOCAL)
    # 1. Zeros.
    start = [store_vector(sums, place, numbers(0)) for place in range(vectors * len(pixels))]
    # 2. Rows of the window that the image has.
    r = frame.variable("r", e["kh"])
    line = nest.y.times(e["stride"]).plus(r).plus(constant(-e["pad"]))
    inside = (Bound(index=line, limit=e["h"]), Bound(index=line.times(-1), limit=1))
    products = tuple(_products(nest, sums, pixels, move, line))
    window = serial("r", e["kh"], under(frame.undecided(inside), products))
    # 3. The entries with the epilogue.
    stores = [
        vector("lane", _stored(nest, sums, pixels, move, place))
        for place in range(vectors * len(pixels))
    ]
    body: Block = (Allocate(buffer=sums, body=(*start, *window, *stores)),)
    return serial("o1", e["o"] // nest.config.tile_o, body)


def _products(
    nest: _Nest, sums: Buffer, pixels: range, move: Affine, line: Affine
) -> Iterable[Statement]:
    """The products of one row of the window: of each of its entries with all pixels."""
    e = nest.extent
    row = nest.image.times(e["h"]).plus(line).times(e["w"])
    r = Affine.variable("r") if e["kh"] > 1 else ZERO
    for tap in range(e["kw"] * e["c"]):
        q, k = divmod(tap, e["c"])
        held = r.times(e["kw"] * e["c"]).plus(constant(tap)).times(e["o"]).plus(nest.channel)
        for number, x in enumerate(pixels):
            column = nest.column(x) + q
            if not 0 <= column < e["w"]:
                continue
            place = total(row, move.times(e["stride"]), constant(column))
            entry = splat(Load(buffer=nest.a, index=place.times(e["c"]).plus(constant(k))))
            for part in range(nest.vectors):
                at = held.plus(constant(LANES * part))
                weights = Load(buffer=nest.b, index=at, lanes=LANES)
                own = number * nest.vectors + part
                value = plus(vector_at(sums, own), times(entry, weights))
                yield store_vector(sums, own, value)


def _stored(nest: _Nest, sums: Buffer, pixels: range, move: Affine, place: int) -> Statement:
    number, part = divmod(place, nest.vectors)
    lane = Affine.variable("lane")
    channel = total(nest.channel, constant(LANES * part), lane)
    at = (nest.image, nest.y, move.plus(constant(pixels[number])), channel)
    return stored_entry(
        nest.workload, at, Load(buffer=sums, index=constant(LANES * place).plus(lane))
    )
