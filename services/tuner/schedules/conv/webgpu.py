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
from math import prod

from kernelzoo.domain.candidate import Candidate
from kernelzoo.domain.workload import Workload
from services.tuner import ir
from services.tuner.schedules.base.finish import stored_entry
from services.tuner.schedules.base.implicit_gemm import Dims
from services.tuner.schedules.base.parameters import parameters_of
from services.tuner.schedules.base.places import row_major
from services.tuner.schedules.base.reducers import JOINS, NEUTRAL
from services.tuner.schedules.base.scheduled import ScheduledProgram
from services.tuner.schedules.conv.channelwise import channelwise_of
from services.tuner.schedules.conv.webgpu_config import WebgpuConvConfig

MAX_UNROLLED = 16
"""Pixels of one row of the image under the windows of a thread; with more, windows are a loop."""

MAX_ROWS_UNROLLED = 5
OUTER, ROWS = ("u", "t", "z", "image", "y"), ("r", "s", "t", "u")
"""Names of the output's axes before x, and of the window's besides its columns."""

CHANNEL = ir.variable("channel")


def lower(candidate: Candidate) -> ScheduledProgram:
    program = conv_program(candidate.workload, WebgpuConvConfig.of(candidate))
    return ScheduledProgram(nests=(program,))


def conv_program(workload: Workload, config: WebgpuConvConfig) -> ir.Program:
    """One dispatch; its parameters are those of the workload, flat."""
    kernel = _ConvKernel(workload, config)
    # 2. Sums start at the neutral element.
    here = ir.affine(i=kernel.width, channel=1)
    start = kernel.sums.store(here, ir.number(kernel.neutral))
    starts = ir.unrolled("i", config.tile_x, kernel.lanes(start))
    # 3 to 5. Rows of windows, their pixels, the output.
    return kernel.frame.dispatch(
        kernel.parameters,
        (kernel.groups, config.threads),
        (starts, *_rows(kernel), *ir.under(kernel.exists, _stores(kernel))),
        local=(kernel.sums, kernel.pixel),
    )


class _ConvKernel:
    """All steps know these. The thread's windows are those of pixels `x` to `x` + `tile_x` - 1 at
    the places `outer` along other axes; `op` joins what is under a window. Pixels are multiplied by
    weights where there are any.
    """

    def __init__(self, workload: Workload, config: WebgpuConvConfig) -> None:
        windows, frame = channelwise_of(workload), ir.Frame()
        self.workload, self.windows, self.frame = workload, windows, frame
        self.parameters = parameters_of(workload)
        self.tensors = {each.name: each for each in self.parameters}
        self.tile_x, self.width = config.tile_x, ir.LANES if config.vec4 else 1
        # 1. Which pixels are the thread's. Threads beyond the last compute the same and store
        # nothing.
        *others, x_axis, channel_axis = windows.axes
        parts = (
            *zip(OUTER[-len(others) :] if others else (), map(windows.size, others), strict=True),
            ("x", -(-windows.size(x_axis) // config.tile_x)),
            ("unit", windows.size(channel_axis) // self.width),
        )
        count = prod(size for _, size in parts)
        place, self.exists, self.groups = frame.item("place", count, config.threads)
        *outer, x, unit = frame.delinearize(place, parts)
        self.outer = dict(zip(others, outer, strict=True))
        self.x, self.channel = x * config.tile_x, unit * self.width + CHANNEL
        self.op = JOINS[windows.reducer]
        # What lies outside of the image, and what sums start with.
        self.neutral = NEUTRAL[windows.reducer]
        self.sums = ir.local("sums", config.tile_x * self.width)
        self.pixel = ir.local("pixel", self.width)

    def lanes(self, store: ir.Store) -> ir.Statement:
        """The store for the channels of a pixel, by "channel"."""
        if self.width == ir.LANES:
            return ir.vector("channel", store)
        return ir.unrolled("channel", 1, store)

    def inside(self, place: ir.Affine, size: int) -> tuple[ir.Bound, ...]:
        """0 ≤ place < size, as far as that does not hold anyway."""
        return self.frame.undecided((place.below(size), place.at_least(0)))


# Step 3: rows of the window that lie in the image.


def _rows(kernel: _ConvKernel) -> ir.Block:
    found = kernel.windows
    names = ROWS[: len(found.rows)]
    rows = dict(zip(found.rows, map(ir.variable, names), strict=True))
    sizes = tuple(map(found.size, found.rows))
    for name, size in zip(names, sizes, strict=True):
        kernel.frame.variable(name, size)
    # Pixels of a row of the image under all windows of the thread.
    columns = (found.size(found.column) - 1) * found.dilation + 1
    span = (kernel.tile_x - 1) * found.stride + columns
    whole = span <= MAX_UNROLLED
    pixels = _pixels(kernel, rows, span) if whole else _pixels_in_loop(kernel, rows)
    bounds: list[ir.Bound] = []
    for index, size in found.dims[:-1]:
        if not index.coefficient(found.x):
            bounds += kernel.inside(_at(index, {**kernel.outer, **rows}), size)
    body = ir.under(bounds, pixels)
    for name, size in reversed(tuple(zip(names, sizes, strict=True))):
        if size <= MAX_ROWS_UNROLLED and whole:
            body = (ir.unrolled(name, size, *body),)
        else:
            body = ir.serial(name, size, body)
    return body


def _at(index: ir.Affine, places: Mapping[str, ir.Affine]) -> ir.Affine:
    found = ir.constant(index.constant)
    for name, factor in index.terms:
        found = found + places[name] * factor
    return found


def _flat(dims: Dims, places: Mapping[str, ir.Affine]) -> ir.Affine:
    return row_major((_at(index, places) for index, _ in dims), (size for _, size in dims))


# Step 4: each pixel of that row, added to the sums of all windows that it is in.


def _pixels(kernel: _ConvKernel, rows: Mapping[str, ir.Affine], span: int) -> ir.Block:
    """Pixel j is in column (j - i·stride) / dilation of window i."""
    windows = kernel.windows
    columns = [column * windows.dilation for column in range(windows.size(windows.column))]
    found: list[ir.Statement] = []
    for j in range(span):
        inside = [i for i in range(kernel.tile_x) if j - i * windows.stride in columns]
        if inside:
            found += _pixel(
                kernel,
                rows,
                ir.constant(j),
                {i: ir.constant((j - i * windows.stride) // windows.dilation) for i in inside},
            )
    return tuple(found)


def _pixels_in_loop(kernel: _ConvKernel, rows: Mapping[str, ir.Affine]) -> ir.Block:
    """A loop over the columns of a window: each window reads its own pixel."""
    windows = kernel.windows
    count = windows.size(windows.column)
    column = kernel.frame.variable("q", count)
    body: list[ir.Statement] = []
    for i in range(kernel.tile_x):
        j = column * windows.dilation + i * windows.stride
        body += _pixel(kernel, rows, j, {i: column})
    return ir.serial("q", count, tuple(body))


def _pixel(
    kernel: _ConvKernel,
    rows: Mapping[str, ir.Affine],
    j: ir.Affine,
    columns: Mapping[int, ir.Affine],
) -> ir.Block:
    """Pixel j of the row under the thread's windows, read once and joined to those it is in, each
    of which has it in its column."""
    windows = kernel.windows
    at = {**kernel.outer, **rows, windows.x: kernel.x, windows.channel: kernel.channel}
    images = kernel.tensors[windows.images]
    bounds: tuple[ir.Bound, ...] = ()
    place = ir.ZERO
    for index, size in windows.dims:
        step = _at(index, {**at, windows.column: ir.ZERO})
        if index.coefficient(windows.x):
            step = step + j
            bounds = kernel.inside(step, size)
        place = place * size + step
    read, missing = (
        kernel.lanes(kernel.pixel.store(CHANNEL, value))
        for value in (images[place], ir.number(kernel.neutral))
    )
    found = [*ir.under(bounds, (read,), (missing,) if bounds else ())]
    for i, column in columns.items():
        value: ir.Expression = kernel.pixel[CHANNEL]
        if windows.weights:
            tap = _flat(windows.weights_dims, {**at, windows.column: column})
            weight = kernel.tensors[windows.weights][tap]
            value = value * weight
        here = i * kernel.width + CHANNEL
        joined = ir.Binary(op=kernel.op, left=kernel.sums[here], right=value)
        found.append(kernel.lanes(kernel.sums.store(here, joined)))
    return tuple(found)


# Step 5: the pixels of the output that exist, with the epilogue.


def _stores(kernel: _ConvKernel) -> ir.Block:
    width = kernel.windows.size(kernel.windows.x)
    found: list[ir.Statement] = []
    for i in range(kernel.tile_x):
        x = kernel.x + i
        at = (*kernel.outer.values(), x, kernel.channel)
        value = kernel.sums[i * kernel.width + CHANNEL]
        store = kernel.lanes(stored_entry(kernel.workload, at, value))
        found += kernel.frame.where((x.below(width),), (store,))
    return tuple(found)
