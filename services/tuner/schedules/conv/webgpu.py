"""Depthwise convolutions and pooling for WebGPU: windows that slide over each channel by itself.

Shapes, named by the settings of `WebgpuConvConfig`, for images a[b, h, w, c], weights d[kh, kw, c]
and an output of [b, y, x, c]:

    dispatch    ⌈b · y · ⌈x / tile_x⌉ · (c / width) / threads⌉ workgroups
    thread      tile_x neighbouring pixels of `width` channels of the output: a vector of four where
                vec4, else one

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
from kernelzoo.domain.workload import Workload
from services.tuner.ir.affine import Affine
from services.tuner.ir.build import (
    ZERO,
    Frame,
    binary,
    loop,
    number,
    serial,
    under,
    unrolled,
    vector,
)
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
from services.tuner.schedules.base.reducers import JOINS, NEUTRAL
from services.tuner.schedules.base.scheduled import ScheduledProgram
from services.tuner.schedules.conv.channelwise import Channelwise, channelwise_of
from services.tuner.schedules.conv.implicit_gemm import Dims
from services.tuner.schedules.conv.webgpu_config import WebgpuConvConfig

MAX_UNROLLED = 16
"""Pixels of one row of the image under the windows of a thread; with more, windows are a loop."""

MAX_ROWS_UNROLLED = 5
OUTER, ROWS = ("u", "t", "z", "image", "y"), ("r", "s", "t", "u")
"""What axes of the output before x, and of the window besides its columns, are called."""

CHANNEL = Affine.variable("channel")


def lower(candidate: Candidate) -> ScheduledProgram:
    program = conv_program(candidate.workload, WebgpuConvConfig.of(candidate))
    return ScheduledProgram(nests=(program,))


def conv_program(workload: Workload, config: WebgpuConvConfig) -> Program:
    """One dispatch; its parameters are those of the workload, flat."""
    found, frame = channelwise_of(workload), Frame()
    width = LANES if config.vec4 else 1

    # 1. Which pixels are the thread's. Threads beyond the last compute the same and store nothing.
    *others, x_axis, channel_axis = found.axes
    parts = (
        *zip(OUTER[-len(others) :] if others else (), map(found.size, others), strict=True),
        ("x", -(-found.size(x_axis) // config.tile_x)),
        ("unit", found.size(channel_axis) // width),
    )
    count = prod(size for _, size in parts)
    groups = -(-count // config.threads)
    group = frame.variable("group", groups)
    place = group.times(config.threads).plus(frame.variable("thread", config.threads))
    exists = frame.undecided((Bound(index=place, limit=count),))
    *outer, x, unit = frame.delinearize(frame.clamped("place", place, count, 1), parts)

    parameters = parameters_of(workload)
    kernel = _Kernel(
        tensors={each.name: each for each in parameters},
        workload=workload,
        windows=found,
        frame=frame,
        tile_x=config.tile_x,
        width=width,
        outer=dict(zip(others, outer, strict=True)),
        x=x.times(config.tile_x),
        channel=unit.times(width).plus(CHANNEL),
        op=JOINS[found.reducer],
        # What lies outside of the image, and what sums start with.
        neutral=NEUTRAL[found.reducer],
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
    return Program(parameters=parameters, body=nest)


def _local(name: str, size: int) -> Buffer:
    return Buffer(name=name, scope=Scope.LOCAL, dtype=DType.F32, size=size)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kernel:
    """What all steps know. The thread's windows are those of pixels `x` to `x` + `tile_x` - 1 at
    the places `outer` along other axes; `op` joins what is under a window. Pixels are multiplied by
    weights where there are any.
    """

    tensors: Mapping[str, Buffer]
    workload: Workload
    windows: Channelwise
    frame: Frame
    tile_x: int
    width: int
    outer: Mapping[str, Affine]
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
    found = kernel.windows
    names = ROWS[: len(found.rows)]
    rows = dict(zip(found.rows, map(Affine.variable, names), strict=True))
    sizes = tuple(map(found.size, found.rows))
    for name, size in zip(names, sizes, strict=True):
        kernel.frame.variable(name, size)
    # Pixels of a row of the image under all windows of the thread.
    columns = (found.size(found.column) - 1) * found.dilation + 1
    span = (kernel.tile_x - 1) * found.stride + columns
    whole = span <= MAX_UNROLLED
    pixels = _pixels(kernel, rows, span) if whole else _pixels_in_loop(kernel, rows)
    bounds: list[Bound] = []
    for index, size in found.dims[:-1]:
        if not index.coefficient(found.x):
            bounds += kernel.inside(_at(index, {**kernel.outer, **rows}), size)
    body = under(bounds, pixels)
    for name, size in reversed(tuple(zip(names, sizes, strict=True))):
        if size <= MAX_ROWS_UNROLLED and whole:
            body = (unrolled(name, size, *body),)
        else:
            body = serial(name, size, body)
    return body


def _at(index: Affine, places: Mapping[str, Affine]) -> Affine:
    found = Affine(constant=index.constant)
    for name, factor in index.terms:
        found = found.plus(places[name].times(factor))
    return found


def _flat(dims: Dims, places: Mapping[str, Affine]) -> Affine:
    place = ZERO
    for index, size in dims:
        place = place.times(size).plus(_at(index, places))
    return place


# Step 4: each pixel of that row, added to the sums of all windows that it is in.


def _pixels(kernel: _Kernel, rows: Mapping[str, Affine], span: int) -> Block:
    """Pixel j is in column (j - i·stride) / dilation of window i."""
    windows = kernel.windows
    columns = [column * windows.dilation for column in range(windows.size(windows.column))]
    found: list[Statement] = []
    for j in range(span):
        inside = [i for i in range(kernel.tile_x) if j - i * windows.stride in columns]
        if inside:
            found += _pixel(
                kernel,
                rows,
                Affine(constant=j),
                {i: Affine(constant=(j - i * windows.stride) // windows.dilation) for i in inside},
            )
    return tuple(found)


def _pixels_in_loop(kernel: _Kernel, rows: Mapping[str, Affine]) -> Block:
    """A loop over the columns of a window: each window reads its own pixel."""
    windows = kernel.windows
    count = windows.size(windows.column)
    column = kernel.frame.variable("q", count)
    body: list[Statement] = []
    for i in range(kernel.tile_x):
        j = column.times(windows.dilation).plus(Affine(constant=i * windows.stride))
        body += _pixel(kernel, rows, j, {i: column})
    return serial("q", count, tuple(body))


def _pixel(
    kernel: _Kernel, rows: Mapping[str, Affine], j: Affine, columns: Mapping[int, Affine]
) -> Block:
    """Pixel j of the row under the thread's windows, read once and joined to those it is in, each
    of which has it in its column."""
    windows = kernel.windows
    at = {**kernel.outer, **rows, windows.x: kernel.x, windows.channel: kernel.channel}
    images = kernel.tensors[windows.images]
    bounds: tuple[Bound, ...] = ()
    place = ZERO
    for index, size in windows.dims:
        step = _at(index, {**at, windows.column: ZERO})
        if index.coefficient(windows.x):
            step = step.plus(j)
            bounds = kernel.inside(step, size)
        place = place.times(size).plus(step)
    read, missing = (
        kernel.lanes(Store(buffer=kernel.pixel, index=CHANNEL, value=value))
        for value in (Load(buffer=images, index=place), number(kernel.neutral))
    )
    found = [*under(bounds, (read,), (missing,) if bounds else ())]
    for i, column in columns.items():
        value: Expression = Load(buffer=kernel.pixel, index=CHANNEL)
        if windows.weights:
            tap = _flat(windows.weights_dims, {**at, windows.column: column})
            weight = Load(buffer=kernel.tensors[windows.weights], index=tap)
            value = binary(BinaryOp.MUL, value, weight)
        here = Affine(constant=i * kernel.width).plus(CHANNEL)
        joined = binary(kernel.op, Load(buffer=kernel.sums, index=here), value)
        found.append(kernel.lanes(Store(buffer=kernel.sums, index=here, value=joined)))
    return tuple(found)


# Step 5: the pixels of the output that exist, with the epilogue.


def _stores(kernel: _Kernel) -> Block:
    width = kernel.windows.size(kernel.windows.x)
    found: list[Statement] = []
    for i in range(kernel.tile_x):
        x = kernel.x.plus(Affine(constant=i))
        held = Affine(constant=i * kernel.width).plus(CHANNEL)
        value: Expression = Load(buffer=kernel.sums, index=held)
        at = (*kernel.outer.values(), x, kernel.channel)
        store = kernel.lanes(stored_entry(kernel.workload, at, value))
        found += under(kernel.frame.undecided((Bound(index=x, limit=width),)), (store,))
    return tuple(found)
