"""Convolutions of bytes that keep channels apart, for wasm.

Shapes, named by the settings of `WasmByteDepthwiseConfig`; a vector of words is sixteen channels,
and a plane of it the bytes of one number in all four words:

    range       blocks of sixteen channels, by groups of `rows` rows of the output
    lines       [(rows - 1) · stride + kh][w + 2 · pad][4]    the words of a block, with padding
    taps        [kw][⌈kh / 2⌉][4 planes][4]                   weights of two rows of a window as i16
    planes      [4][4]                                        scales, biases, what sums begin as
    tile        tile_x pixels, two planes of sums of each at a time
    loop body   a column of the image, two of its lines at a time: the bytes of both as pairs of i16

A dot product of pairs sums the products of two lines of a window in each lane, so that no byte is
widened to more than 16 bits. With the zero point z and the sum over windows that lie within the
padded image, where z stands outside,

    Σ (p - z) · b = Σ p · b - z · Σ b

What it makes of depthwise_conv2d_u8i8q:f32:b1h6w8c16kh3kw3stride1pad1 with tile_x=4, rows=6:

    for slice < 1 range:
      lines[…] = a[…], or the word of zero points                       1.
      taps[…] = b[…] of rows 0 and 1, then of row 2                     2.
      for y < 6:
        for x1 < 2:
          sums[4·x …] = begun[…] of planes 0 and 2                      3.
          sums[4·x …] += dot of pairs(bytes of lines, taps[…])          unrolled
          made[4·x …] = byte(sums[…]) | byte(sums[…]) << 16
          the same of planes 1 and 3
          c[…] = made[…]                                                4.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from kernelzoo.domain.candidate import Candidate
from kernelzoo.domain.dtype import DType
from kernelzoo.domain.operators.integer_products import ACTIVATION_BITS, PER_WORD
from kernelzoo.domain.workload import Workload
from services.tuner import ir
from services.tuner.passes.pipeline import PassOptions
from services.tuner.schedules.base.parameters import parameters_of, with_parameter
from services.tuner.schedules.base.scheduled import ScheduledProgram
from services.tuner.schedules.byte_depthwise.config import (
    CHANNELS,
    WasmByteDepthwiseConfig,
    lines_of,
)

LOW_HALF, HIGH_HALF = 0x0000FFFF, -0x10000
EVEN_BYTES = 0x00FF00FF
ONE_AND_ONE = 0x00010001
PLANES = PER_WORD
MOST = 255
HALF_BITS = 16


def lower(candidate: Candidate) -> ScheduledProgram:
    config = WasmByteDepthwiseConfig.of(candidate)
    nest = _ByteDepthwiseNest(workload=candidate.workload, config=config)
    program = ir.Program(parameters=nest.parameters, body=nest.body())
    # Reals are rounded as stated, so that all devices give the same bits.
    return ScheduledProgram(nests=(program,), options=PassOptions())


@dataclass(frozen=True, slots=True, kw_only=True)
class _ByteDepthwiseNest:
    workload: Workload
    config: WasmByteDepthwiseConfig

    @property
    def parameters(self) -> tuple[ir.Buffer, ...]:
        """Returns those of the workload, weights as words."""
        _, b, *_ = given = parameters_of(self.workload)
        return with_parameter(given, ir.parameter(b.name, b.size // PER_WORD, DType.I32))

    @property
    def extent(self) -> dict[str, int]:
        return self.workload.extent

    @property
    def pairs(self) -> int:
        """Rows of a window, two at a time."""
        return -(-self.extent["kh"] // 2)

    @property
    def width(self) -> int:
        return self.extent["w"] + 2 * self.extent["pad"]

    @property
    def lines(self) -> ir.Buffer:
        count = lines_of(self.workload, self.config.rows)
        return ir.scratch("lines", count * self.width * ir.LANES, DType.I32)

    @property
    def taps(self) -> ir.Buffer:
        return ir.scratch("taps", self.extent["kw"] * self.pairs * PLANES * ir.LANES, DType.I32)

    @property
    def begun(self) -> ir.Buffer:
        return ir.scratch("begun", PLANES * ir.LANES, DType.I32)

    @property
    def scales(self) -> ir.Buffer:
        return ir.scratch("scales", PLANES * ir.LANES)

    @property
    def biases(self) -> ir.Buffer:
        return ir.scratch("biases", PLANES * ir.LANES)

    @property
    def outside(self) -> ir.Buffer:
        """The word of which each byte is the zero point, in all lanes."""
        return ir.local("outside", ir.LANES, DType.I32)

    def body(self) -> ir.Loop:
        e, frame = self.extent, ir.Frame()
        groups, blocks = e["y"] // self.config.rows, e["c"] // CHANNELS
        slices = e["b"] * groups * blocks
        at = frame.variable("slice", slices)
        axes = (("image", e["b"]), ("block", blocks), ("group", groups))
        image, block, group = frame.delinearize(at, axes)
        zero = self.parameters[3][0]
        word: ir.Expression = zero
        for place in range(1, PER_WORD):
            word = word | zero << place * ACTIVATION_BITS
        steps: ir.Block = (
            self.outside.store(0, ir.splat(word)),
            *self._copied(frame, image, block, group),
            *self._prepared(block, zero),
            *self._rows(image, block, group),
        )
        held = (self.outside, self.lines, self.taps, self.begun, self.scales, self.biases)
        return ir.loop("slice", slices, frame.enclose(ir.allocated(held, steps)), ir.LoopKind.RANGE)

    # Step 1: lines of the image.

    def _copied(
        self, frame: ir.Frame, image: ir.Affine, block: ir.Affine, group: ir.Affine
    ) -> ir.Block:
        e = self.extent
        a, words, pad = self.parameters[0], e["c"] // PER_WORD, e["pad"]
        count = lines_of(self.workload, self.config.rows)
        line = ir.variable("line") if count > 1 else ir.ZERO
        source = group * (self.config.rows * e["stride"]) + line - pad
        column = ir.variable("column")
        start = line * (self.width * ir.LANES)
        outside = self.outside.vector(0)
        own = ((image * e["h"] + source) * e["w"] + column) * words + block * ir.LANES
        ends = [*range(pad), *range(pad + e["w"], self.width)]
        copied = (
            *(self.lines.store(start + place * ir.LANES, outside) for place in ends),
            *ir.serial(
                "column",
                e["w"],
                (self.lines.store(start + (column + pad) * ir.LANES, a.vector(own)),),
            ),
        )
        filled = ir.serial(
            "column", self.width, (self.lines.store(start + column * ir.LANES, outside),)
        )
        frame.variable("line", count)
        inside = frame.undecided((source.at_least(0), source.below(e["h"])))
        return ir.serial("line", count, ir.under(inside, copied, filled))

    # Step 2: weights as pairs, and what is done to sums, in planes.

    def _prepared(self, block: ir.Affine, zero: ir.Expression) -> ir.Block:
        e = self.extent
        _, b, scale, _, scales, bias, *_ = self.parameters
        sums = ir.tile("weight_sums", PLANES, dtype=DType.I32)
        halves = ir.tile("halves", 2, 2, dtype=DType.I32)

        def weights(r: int, q: int) -> ir.Expression:
            if r >= e["kh"]:
                return ir.wholes(0)
            return b.vector(block * ir.LANES + (r * e["kw"] + q) * (e["c"] // PER_WORD))

        def steps() -> Iterator[ir.Statement]:
            yield from sums.fill(0)
            for q in range(e["kw"]):
                for pair in range(self.pairs):
                    for row in range(2):
                        for odd in range(2):
                            half = ir.Halves(value=weights(2 * pair + row, q), odd=bool(odd))
                            yield halves.store((row, odd), half)
                    for plane in range(PLANES):
                        one, other = (halves[row, plane % 2] for row in range(2))
                        at = ((q * self.pairs + pair) * PLANES + plane) * ir.LANES
                        yield self.taps.store(at, _paired(one, other, high=plane > 1))
                        ones = ir.wholes(ONE_AND_ONE)
                        yield sums.add(plane, ir.DotPairs(left=self.taps.vector(at), right=ones))
            for plane in range(PLANES):
                at = plane * ir.LANES
                channels = [block * CHANNELS + lane * PER_WORD + plane for lane in range(ir.LANES)]
                own = ir.Lanes(values=tuple(scales[channel] for channel in channels))
                yield self.scales.store(at, ir.splat(scale[0]) * own)
                own = ir.Lanes(values=tuple(bias[channel] for channel in channels))
                yield self.biases.store(at, own)
                yield self.begun.store(at, ir.wholes(0) - sums[plane] * ir.splat(zero))

        return ir.allocated((sums, halves), tuple(steps()))

    # Steps 3 and 4: tiles of pixels.

    def _rows(self, image: ir.Affine, block: ir.Affine, group: ir.Affine) -> ir.Block:
        e = self.extent
        y = ir.variable("y") if self.config.rows > 1 else ir.ZERO
        row = image * e["y"] + group * self.config.rows + y
        tile = partial(self._tile, row, block, y)
        return ir.serial("y", self.config.rows, ir.tiled("x1", e["x"], self.config.tile_x, tile))

    def _tile(
        self, row: ir.Affine, block: ir.Affine, y: ir.Affine, first: ir.Affine, pixels: int
    ) -> ir.Block:
        e = self.extent
        sums = ir.tile("sums", pixels, 2, dtype=DType.I32)
        made = ir.tile("made", pixels, dtype=DType.I32)
        entries = ir.tile("entries", 2, dtype=DType.I32)
        pairs = ir.tile("pairs", 2, dtype=DType.I32)
        c, words = self.parameters[-1], e["c"] // PER_WORD

        def products(odd: int) -> Iterator[ir.Statement]:
            columns = (pixels - 1) * e["stride"] + e["kw"]
            for column in range(columns):
                for pair in range(self.pairs):
                    for line in range(2):
                        own = self._bytes(y, first, column, 2 * pair + line, odd)
                        yield entries.store(line, own)
                    for high in range(2):
                        yield pairs.store(high, _paired(entries[0], entries[1], high=bool(high)))
                    for pixel in range(pixels):
                        q = column - pixel * e["stride"]
                        if not 0 <= q < e["kw"]:
                            continue
                        for number in range(2):
                            plane = 2 * number + odd
                            tap = ((q * self.pairs + pair) * PLANES + plane) * ir.LANES
                            dot = ir.DotPairs(left=pairs[number], right=self.taps.vector(tap))
                            yield sums.add((pixel, number), dot)

        def steps() -> Iterator[ir.Statement]:
            # Bytes 0 and 2 of words, then 1 and 3: sums of half of the planes are held at a time.
            for odd in range(2):
                for pixel in range(pixels):
                    for number in range(2):
                        begun = self.begun.vector((2 * number + odd) * ir.LANES)
                        yield sums.store((pixel, number), begun)
                yield from products(odd)
                for pixel in range(pixels):
                    low, high = (
                        self._byte(sums[pixel, number], 2 * number + odd) for number in range(2)
                    )
                    word = low | high << HALF_BITS
                    if odd:
                        word = made[pixel] | word << ACTIVATION_BITS
                    yield made.store(pixel, word)
            for pixel in range(pixels):
                target = (row * e["x"] + first + pixel) * words + block * ir.LANES
                yield c.store(target, made[pixel])

        return ir.allocated((sums, made, entries, pairs), tuple(steps()))

    def _bytes(
        self, y: ir.Affine, first: ir.Affine, column: int, r: int, odd: int
    ) -> ir.Expression:
        """Bytes 0 and 2 of each word of a line as i16, or bytes 1 and 3."""
        e = self.extent
        if r >= e["kh"]:
            return ir.wholes(0)
        line = y * e["stride"] + r
        at = (line * self.width + first * e["stride"] + column) * ir.LANES
        words = self.lines.vector(at)
        return (words >> ACTIVATION_BITS if odd else words) & EVEN_BYTES

    def _byte(self, total: ir.Expression, plane: int) -> ir.Expression:
        step, start = self.parameters[-3], self.parameters[-2]
        at = plane * ir.LANES
        real = total.cast(DType.F32) * self.scales.vector(at) + self.biases.vector(at)
        steps = ir.call(ir.MathFunction.NEAREST, real / ir.splat(step[0]))
        moved = steps + ir.splat(start[0].cast(DType.F32))
        return moved.cast(DType.I32).max(0).min(MOST)


def _paired(one: ir.Expression, other: ir.Expression, *, high: bool) -> ir.Expression:
    """One i16 of each word of two vectors side by side: both low halves, or both high ones."""
    if high:
        return ((one >> HALF_BITS) & LOW_HALF) | (other & HIGH_HALF)
    return (one & LOW_HALF) | (other << HALF_BITS)
