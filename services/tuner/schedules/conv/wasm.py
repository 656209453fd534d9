"""Convolutions and pooling for wasm: register tiles of pixels and channels, a window at a time.

Shapes, named by the settings of `WasmConvConfig`:

    range         blocks of block_y rows of the output; with packing, tiles of tile_c channels
    block         rows of the image that its windows touch, with padding, in scratch memory
    tile          c[tile_x, tile_c], neighbouring pixels of a row, sums in registers
    loop body     unroll_c input channels of one place in the window

    pack=none     weights as they lie, [kh, kw, c, o]
    pack=kernel   [kh, kw, c, tile_c], copied before the rows
    pack=before   weights lie as [⌈o / tile_c⌉][kh · kw · c][tile_c]

What it makes of conv2d:f32:b1h4w4c4o16kh3kw3stride1pad1 with tiles of 2x8, unroll_c=2, block_y=2:

    for y2 < 2 range:
      padded[4, 6, 4] = a[…] or 0                            4. what two rows of windows touch
      for o1 < 2:                                            2. channels outside of columns
        for y1 < 2:
          for x1 < 2:
            sums[16] = 0                                     7.
            for r < 3:
              for q < 3:
                for c1 < 2:                                  c0 < 2 and x0 < 2 unrolled
                  sums[8·x0 + o0] += padded[…] · b[…]        3. o0 < 8 vector
            c[…] = sums[…]                                   6.

Columns and channels of the output are stated rounded up to whole tiles, as for contractions: what
lies outside of a parameter does not exist, which is right for sums and for the largest of values.
Padding is a copy of the rows that a block needs: the loops that compute have no condition, and a
row is copied at most kh / (stride · block_y) + 1 times.
"""

from collections.abc import Callable
from functools import lru_cache

from kernelzoo.domain.candidate import Candidate
from kernelzoo.domain.operators.convolution import LOWEST
from kernelzoo.domain.operators.epilogues import epilogue_inputs
from kernelzoo.domain.workload import Workload
from services.tuner.ir.nodes import Program
from services.tuner.operators.lowering import finished
from services.tuner.passes.pipeline import PassOptions
from services.tuner.schedules.base.extents import Shape
from services.tuner.schedules.base.register_tiles import vectorise_tile, write_back
from services.tuner.schedules.base.scheduled import ScheduledProgram
from services.tuner.schedules.conv.config import WasmConvConfig
from services.tuner.schedules.matmul.config import Pack
from services.tuner.tir.lowering import scheduled_program
from services.tuner.tir.tvm import Node, Schedule, te, tirx

Extents = tuple[tuple[str, int], ...]
Weights = tuple[Node, Callable[..., Node]]


def lower(candidate: Candidate) -> ScheduledProgram:
    config = WasmConvConfig.of(candidate)
    return ScheduledProgram(
        nests=(conv_program(candidate.workload, config),),
        options=PassOptions(fma=config.fma, vectors=1),
        panels=config.panels,
    )


def conv_program(workload: Workload, config: WasmConvConfig) -> Program:
    """The scheduled loop nest; its parameters are those of the workload, flat."""
    extents = tuple(config.rounded(workload).items())
    function = _stated(workload.operator.name, workload.epilogue, extents, config.panels)
    schedule = _scheduled(function, workload, config)
    return scheduled_program(schedule, config.shapes(workload), config.range_extent(workload))


@lru_cache(maxsize=256)
def _stated(name: str, epilogue: tuple[str, ...], extents: Extents, panels: int) -> Node:
    """The computation alone: one function for each rounded shape and width of panels."""
    e = dict(extents)
    height, width = (e["y"] - 1) * e["stride"] + e["kh"], (e["x"] - 1) * e["stride"] + e["kw"]
    channels = e["c"]
    stored = (e["h"], e["w"]) if e["pad"] else (height, width)
    image = te.placeholder((e["b"], *stored, channels), name="a")
    outside = LOWEST if name == "max_pool2d" else 0.0
    source = _padded(image, e, outside, height, width) if e["pad"] else image
    weights = _weights(name, e, panels)
    sums = _sums(name, e, source, weights, finished=bool(epilogue) or name == "avg_pool2d")
    extra = _extra(epilogue, tuple(int(n) for n in sums.shape))
    result = sums
    if name == "avg_pool2d":
        result = te.compute(sums.shape, lambda *at: sums(*at) * (1 / (e["kh"] * e["kw"])), name="c")
    elif epilogue:
        result = finished(epilogue, sums, extra)
    return te.create_prim_func([image, *(tensor for tensor, _ in weights), *extra, result])


def _padded(image: Node, e: dict[str, int], outside: float, rows: int, columns: int) -> Node:
    """The image[b, h, w, c] with its padding on the upper left, cut or filled to rows x columns."""
    b, h, w, c = image.shape
    p = e["pad"]

    def entry(i: Node, y: Node, x: Node, j: Node) -> Node:
        inside = tirx.all(y >= p, y < h + p, x >= p, x < w + p)
        return tirx.if_then_else(inside, image[i, y - p, x - p, j], tirx.const(outside, "float32"))

    return te.compute((b, rows, columns, c), entry, name="padded")


def _weights(name: str, e: dict[str, int], panels: int) -> list[Weights]:
    """b, and its entry for a place in the window, an input channel and an output channel."""
    r, q, c, channels = e["kh"], e["kw"], e["c"], e.get("o", 0)
    match name:
        case "conv2d" if panels:
            b = te.placeholder((channels // panels, r * q * c, panels), name="b")
            return [(b, lambda y, x, i, o: b[o // panels, (y * q + x) * c + i, o % panels])]
        case "conv2d":
            b = te.placeholder((r, q, c, channels), name="b")
            return [(b, lambda y, x, i, o: b[y, x, i, o])]
        case "depthwise_conv2d":
            b = te.placeholder((r, q, c), name="b")
            return [(b, lambda y, x, _, o: b[y, x, o])]
    return []


def _extra(epilogue: tuple[str, ...], shape: Shape) -> tuple[Node, ...]:
    return tuple(te.placeholder(s, name=name) for name, s in epilogue_inputs(epilogue, shape))


def _sums(
    name: str, e: dict[str, int], image: Node, weights: list[Weights], *, finished: bool
) -> Node:
    r, q = te.reduce_axis((0, e["kh"]), name="r"), te.reduce_axis((0, e["kw"]), name="q")
    c, s = te.reduce_axis((0, e["c"]), name="k"), e["stride"]
    axes = [r, q, c] if name == "conv2d" else [r, q]
    reduce = te.max if name == "max_pool2d" else te.sum

    def entry(i: Node, y: Node, x: Node, o: Node) -> Node:
        value = image[i, y * s + r, x * s + q, c if name == "conv2d" else o]
        for _, weight in weights:
            value = value * weight(r, q, c, o)
        return reduce(value, axis=axes)

    shape = (e["b"], e["y"], e["x"], e["o" if name == "conv2d" else "c"])
    return te.compute(shape, entry, name="sum" if finished else "c")


def _scheduled(function: Node, workload: Workload, config: WasmConvConfig) -> Node:
    finishes = bool(workload.epilogue) or workload.operator.name == "avg_pool2d"
    # 1. Cut rows into blocks, columns and channels into tiles, input channels into bodies.
    schedule = Schedule(function, debug_mask="none", enable_check=False)
    block = schedule.get_sblock("sum" if finishes else "c")
    b, y, x, o, r, q, *channels = schedule.get_loops(block)
    y2, y1 = schedule.split(y, [None, config.block_y], preserve_unit_iters=True)
    x1, x0 = schedule.split(x, [None, config.tile_x], preserve_unit_iters=True)
    o1, o0 = schedule.split(o, [None, config.tile_c], preserve_unit_iters=True)
    unrolled = []
    for c in channels:
        c1, c0 = schedule.split(c, [None, config.unroll_c], preserve_unit_iters=True)
        channels, unrolled = [c1], [c0]
    # 2. Tiles of channels stand outside of columns, so that their weights stay in the first cache.
    outer = (y2, b, o1) if config.pack is Pack.NONE else (o1, y2, b)
    schedule.reorder(*outer, y1, x1, r, q, *channels, *unrolled, x0, o0)
    # 3. The body: vectors of channels, for each column and input channel of it.
    schedule.vectorize(o0)
    for loop in (x0, *unrolled):
        schedule.unroll(loop)
    # 4. Padded rows are copied for each block.
    if workload.given["pad"]:
        copy = schedule.get_sblock("padded")
        schedule.compute_at(copy, b, preserve_unit_loops=True)
    # 5. Weights of a tile of channels are copied next to one another.
    if config.pack is Pack.KERNEL:
        weights = schedule.cache_read(block, 1, "global")
        schedule.compute_at(weights, o1, preserve_unit_loops=True)
        schedule.vectorize(schedule.get_loops(weights)[-1])
    # 6. Sums stay in registers until they are stored.
    write_back(schedule, block, x1, finished=finishes)
    # 7. They are set to zero before the window.
    vectorise_tile(schedule, schedule.decompose_reduction(block, r))
    return schedule
