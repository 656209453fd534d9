"""Depthwise convolutions and pooling for WebGPU: windows that slide over each channel by itself.

Shapes, named by the settings of `WebgpuConvConfig`, for images a[b, h, w, c], weights d[kh, kw, c]
and an output of [b, y, x, c]:

    dispatch    ⌈b · y · ⌈x / tile_x⌉ · (c / width) / threads⌉ workgroups
    thread      tile_x neighbouring pixels of `width` channels of the output: a vector of four where
                whole_vectors, else one

Windows side by side share pixels of the image: a thread reads each pixel under its windows once for
each row of the window, and adds it to the sums of all windows that it is in. The steps below are
numbered in their order. What they make of depthwise_conv2d 3×3 with stride 1, pad 1 and tile_x=2:

    let place = min(thread + group * …, …);        // 1  place → image, y, x and unit
    sums_0 = vec4<f32>(0.0f); sums_4 = …           // 2  of both windows
    if (…row is inside…) {                         // 3  for each of 3 rows of the window
      if (…) { pixel_0 = a[…]; } else { pixel_0 = vec4<f32>(0.0f); }   // 4  4 pixels of the image
      sums_0 = fma(pixel_0, b[…], sums_0);         //    column 0 of the window of pixel 0
      pixel_0 = a[…];
      sums_0 = fma(pixel_0, b[…], sums_0);         //    column 1 of it,
      sums_4 = fma(pixel_0, b[…], sums_4);         //    and column 0 of the window of pixel 1
      …
    }
    c[…] = sums_0; c[…] = sums_4;                  // 5  where they exist
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

from kernelzoo.domain.candidate import Candidate
from kernelzoo.domain.dtype import DType
from kernelzoo.domain.operators.convolution import LOWEST
from kernelzoo.domain.workload import Workload
from services.tuner.ir.affine import Affine
from services.tuner.ir.build import Frame, binary, loop, number, serial, under, unrolled, vector
from services.tuner.ir.nodes import (
    LANES,
    Allocate,
    BinaryOp,
    Block,
    Bound,
    Buffer,
    Expression,
    Load,
    LoopKind,
    Program,
    Scope,
    Statement,
    Store,
)
from services.tuner.schedules.base.finish import stored_entry
from services.tuner.schedules.base.parameters import parameters_of
from services.tuner.schedules.base.scheduled import ScheduledProgram
from services.tuner.schedules.conv.webgpu_config import WebgpuConvConfig

MAX_UNROLLED = 16
"""Pixels of one row of the image under the windows of a thread; with more, windows are a loop."""

MAX_ROWS_UNROLLED = 5
CHANNEL = Affine.variable("channel")


def lower(candidate: Candidate) -> ScheduledProgram:
    program = conv_program(candidate.workload, WebgpuConvConfig.of(candidate))
    return ScheduledProgram(nests=(program,))


def conv_program(workload: Workload, config: WebgpuConvConfig) -> Program:
    """One dispatch; its parameters are those of the workload, flat."""
    e, frame, operator = workload.extent, Frame(), workload.operator.name
    width = LANES if config.whole_vectors else 1

    # 1. Which pixels are the thread's. Threads beyond the last compute the same and store nothing.
    parts = (
        ("image", e["b"]),
        ("y", e["y"]),
        ("x", -(-e["x"] // config.tile_x)),
        ("unit", e["c"] // width),
    )
    count = prod(size for _, size in parts)
    groups = -(-count // config.threads)
    group = frame.variable("group", groups)
    place = group.times(config.threads).plus(frame.variable("thread", config.threads))
    exists = frame.undecided((Bound(index=place, limit=count),))
    image, y, x, unit = frame.delinearize(frame.clamped("place", place, count, 1), parts)

    kernel = _Kernel(
        parameters=parameters_of(workload),
        workload=workload,
        weighted=operator == "depthwise_conv2d",
        extent=e,
        frame=frame,
        tile_x=config.tile_x,
        width=width,
        image=image,
        y=y,
        x=x.times(config.tile_x),
        channel=unit.times(width).plus(CHANNEL),
        op=BinaryOp.MAX if operator == "max_pool2d" else BinaryOp.ADD,
        # What lies outside of the image, and what sums start with.
        neutral=LOWEST if operator == "max_pool2d" else 0,
        sums=_local("sums", config.tile_x * width),
        pixel=_local("pixel", width),
    )
    # 2. Sums start at the neutral element.
    here = Affine.of(0, {"i": width, "channel": 1})
    start = Store(buffer=kernel.sums, index=here, value=number(kernel.neutral))
    starts = unrolled("i", config.tile_x, kernel.lanes(start))
    # 3 to 5. Rows of windows, their pixels, the output.
    body: Block = (starts, *_rows(kernel), *under(exists, _stores(kernel)))

    for buffer in (kernel.sums, kernel.pixel):
        body = (Allocate(buffer=buffer, body=body),)
    threads = loop("thread", config.threads, LoopKind.THREAD_INDEX, frame.enclose(body))
    nest = loop("group", groups, LoopKind.RANGE, (threads,))
    return Program(parameters=kernel.parameters, body=nest)


def _local(name: str, size: int) -> Buffer:
    return Buffer(name=name, scope=Scope.LOCAL, dtype=DType.F32, size=size)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kernel:
    """What all steps know. The thread's windows are those of pixels `x` to `x` + `tile_x` - 1 of
    row `y`; `op` joins what is under a window. Pixels are multiplied by weights where the kernel is
    `weighted`.
    """

    parameters: tuple[Buffer, ...]
    workload: Workload
    weighted: bool
    extent: Mapping[str, int]
    frame: Frame
    tile_x: int
    width: int
    image: Affine
    y: Affine
    x: Affine
    channel: Affine
    op: BinaryOp
    neutral: float
    sums: Buffer
    pixel: Buffer

    def lanes(self, store: Store) -> Statement:
        """The store for the channels of a pixel, by "channel"."""
        return vector("channel", store) if self.width == LANES else unrolled("channel", 1, store)

    def inside(self, place: Affine, size: int) -> tuple[Bound, ...]:
        """0 ≤ place < size, as far as that does not hold anyway."""
        return self.frame.undecided(
            (Bound(index=place, limit=size), Bound(index=place.times(-1), limit=1))
        )


# Step 3: rows of the window that lie in the image.


def _rows(kernel: _Kernel) -> Block:
    e = kernel.extent
    kernel.frame.variable("r", e["kh"])
    row = kernel.y.times(e["stride"]).plus(Affine.of(-e["pad"], {"r": 1}))
    # Pixels of a row of the image under all windows of the thread.
    span = (kernel.tile_x - 1) * e["stride"] + e["kw"]
    pixels = _pixels(kernel, row, span) if span <= MAX_UNROLLED else _pixels_in_loop(kernel, row)
    body = under(kernel.inside(row, e["h"]), pixels)
    if e["kh"] <= MAX_ROWS_UNROLLED and span <= MAX_UNROLLED:
        return (unrolled("r", e["kh"], *body),)
    return serial("r", e["kh"], body)


# Step 4: each pixel of that row, added to the sums of all windows that it is in.


def _pixels(kernel: _Kernel, row: Affine, span: int) -> Block:
    """Pixel j is in column j - i·stride of window i."""
    stride, kw = kernel.extent["stride"], kernel.extent["kw"]
    found: list[Statement] = []
    for j in range(span):
        windows = [i for i in range(kernel.tile_x) if 0 <= j - i * stride < kw]
        if windows:
            found += _pixel(kernel, row, Affine(constant=j), windows)
    return tuple(found)


def _pixels_in_loop(kernel: _Kernel, row: Affine) -> Block:
    """A loop over the columns of a window: each window reads its own pixel."""
    stride, kw = kernel.extent["stride"], kernel.extent["kw"]
    column = kernel.frame.variable("q", kw)
    body: list[Statement] = []
    for i in range(kernel.tile_x):
        body += _pixel(kernel, row, column.plus(Affine(constant=i * stride)), [i])
    return serial("q", kw, tuple(body))


def _pixel(kernel: _Kernel, row: Affine, j: Affine, windows: list[int]) -> Block:
    """Pixel j of the row under the thread's windows, read once and joined to those it is in."""
    e = kernel.extent
    x = kernel.x.times(e["stride"]).plus(j).plus(Affine(constant=-e["pad"]))
    line = kernel.image.times(e["h"]).plus(row)
    place = line.times(e["w"]).plus(x).times(e["c"]).plus(kernel.channel)
    bounds = kernel.inside(x, e["w"])
    read, missing = (
        kernel.lanes(Store(buffer=kernel.pixel, index=CHANNEL, value=value))
        for value in (Load(buffer=kernel.parameters[0], index=place), number(kernel.neutral))
    )
    found = [*under(bounds, (read,), (missing,) if bounds else ())]
    for i in windows:
        value: Expression = Load(buffer=kernel.pixel, index=CHANNEL)
        if kernel.weighted:
            column = j.plus(Affine(constant=-i * e["stride"]))
            tap = Affine.of(0, {"r": e["kw"]}).plus(column).times(e["c"]).plus(kernel.channel)
            weight = Load(buffer=kernel.parameters[1], index=tap)
            value = binary(BinaryOp.MUL, value, weight)
        here = Affine(constant=i * kernel.width).plus(CHANNEL)
        joined = binary(kernel.op, Load(buffer=kernel.sums, index=here), value)
        found.append(kernel.lanes(Store(buffer=kernel.sums, index=here, value=joined)))
    return tuple(found)


# Step 5: the pixels of the output that exist, with the epilogue.


def _stores(kernel: _Kernel) -> Block:
    e = kernel.extent
    found: list[Statement] = []
    for i in range(kernel.tile_x):
        x = kernel.x.plus(Affine(constant=i))
        held = Affine(constant=i * kernel.width).plus(CHANNEL)
        value: Expression = Load(buffer=kernel.sums, index=held)
        at = (kernel.image, kernel.y, x, kernel.channel)
        store = kernel.lanes(stored_entry(kernel.workload, at, value))
        found += under(kernel.frame.undecided((Bound(index=x, limit=e["x"]),)), (store,))
    return tuple(found)
