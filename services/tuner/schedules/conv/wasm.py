"""Convolutions and pooling for wasm: register tiles of pixels and channels, a window at a time.

Shapes, named by the settings of `WasmConvConfig`:

    range         blocks of block_y rows of the output; with packing, tiles of tile_c channels
    block         rows of the image that its windows touch, with padding, in scratch memory
    tile          c[tile_x, tile_c], neighbouring pixels of a row, sums in registers
    loop body     unroll_c input channels of one place in the window

    pack=none       weights as they lie, [kh, kw, c, o]
    pack=kernel     [kh, kw, c, tile_c], copied before the rows
    pack=prepacked  weights lie as [⌈o / tile_c⌉][kh · kw · c][tile_c]

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
row is copied at most kh / (stride · block_y) + 1 times. So is whatever else a program does to an
image before it is reduced.

Which axes of a program are rows, pixels and channels: `windows.py`.
"""

from dataclasses import replace
from functools import lru_cache
from math import prod

from kernelzoo.domain.candidate import Candidate
from kernelzoo.domain.operators.expressions import Expression, Input, Read, rebuilt
from kernelzoo.domain.operators.expressions import Program as TensorProgram
from kernelzoo.domain.workload import Workload
from services.tuner import ir
from services.tuner.operators.lowering import prim_func
from services.tuner.passes.pipeline import PassOptions
from services.tuner.schedules.base.extents import Shape
from services.tuner.schedules.base.fused import enlarged
from services.tuner.schedules.base.register_tiles import vectorise_tile, write_back
from services.tuner.schedules.base.scheduled import ScheduledProgram, panels_layout
from services.tuner.schedules.base.wasm_config import Pack
from services.tuner.schedules.base.windows import Windows, windows_of
from services.tuner.schedules.conv.config import WasmConvConfig
from services.tuner.tir.lowering import scheduled_program
from services.tuner.tir.tvm import Node, Schedule


def lower(candidate: Candidate) -> ScheduledProgram:
    config = WasmConvConfig.of(candidate)
    return ScheduledProgram(
        nests=(conv_program(candidate.workload, config),),
        options=PassOptions(fma=config.fma, vectors=1),
        layout=panels_layout(config.panels),
    )


def conv_program(workload: Workload, config: WasmConvConfig) -> ir.Program:
    """The scheduled loop nest; its parameters are those of the workload, flat."""
    windows = windows_of(workload)
    sizes = tuple(config.rounded(windows).items())
    schedule = _scheduled(_stated(workload, sizes, config.panels), windows, config)
    return scheduled_program(schedule, config.shapes(workload), config.range_extent(workload))


@lru_cache(maxsize=256)
def _stated(workload: Workload, sizes: tuple[tuple[str, int], ...], panels: int) -> Node:
    """The computation alone: one function for each rounded shape and width of panels."""
    windows = windows_of(workload)
    program = enlarged(windows.whole, dict(sizes))
    return prim_func(_in_panels(program, windows.weights, panels) if panels else program)


def _in_panels(program: TensorProgram, name: str, width: int) -> TensorProgram:
    """Reads a tensor [taps…, c] as [c / width, taps, width]."""
    shape = next(each.shape for each in program.inputs if each.name == name)

    def inside(part: Expression) -> Expression:
        match part:
            case Read(tensor, at) if tensor == name:
                return Read(name, (at[-1] // width, _flat(at[:-1], shape), at[-1] % width))
        return rebuilt(part, inside)

    def held(each: Input) -> Input:
        *taps, channels = each.shape
        return replace(each, shape=(channels // width, prod(taps), width))

    return replace(
        program,
        inputs=tuple(held(each) if each.name == name else each for each in program.inputs),
        stages=tuple(replace(stage, value=inside(stage.value)) for stage in program.stages),
    )


def _flat(at: tuple[Expression, ...], shape: Shape) -> Expression:
    place, *others = at
    for each, extent in zip(others, shape[1:], strict=False):
        place = place * extent + each
    return place


def _scheduled(function: Node, windows: Windows, config: WasmConvConfig) -> Node:
    # 1. Cut rows into blocks, columns and channels into tiles, input channels into bodies.
    schedule = Schedule(function, debug_mask="none", enable_check=False)
    whole = windows.whole
    block = schedule.get_sblock(whole.reduction.name)
    axes = (*whole.reduction.axes, *whole.reduction.over)
    names = (axis.name for axis in axes)
    loops = dict(zip(names, schedule.get_loops(block), strict=True))
    others = [loops[name] for name in windows.others]
    window = [loops[name] for name in windows.window]
    y2, y1 = schedule.split(loops[windows.y], [None, config.block_y], preserve_unit_iters=True)
    x1, x0 = schedule.split(loops[windows.x], [None, config.tile_x], preserve_unit_iters=True)
    c1, c0 = schedule.split(loops[windows.c], [None, config.tile_c], preserve_unit_iters=True)
    channels, unrolled = [], []
    if windows.k:
        k1, k0 = schedule.split(loops[windows.k], [None, config.unroll_c], preserve_unit_iters=True)
        channels, unrolled = [k1], [k0]
    # 2. Tiles of channels stand outside of columns, so that their weights stay in the first cache.
    outer = [y2, *others, c1] if config.pack is Pack.NONE else [c1, y2, *others]
    schedule.reorder(*outer, y1, x1, *window, *channels, *unrolled, x0, c0)
    # 3. The body: vectors of channels, for each column and input channel of it.
    schedule.vectorize(c0)
    for loop in (x0, *unrolled):
        schedule.unroll(loop)
    # 4. Padded rows are copied for each block.
    for stage in reversed(whole.before):
        copy = schedule.get_sblock(stage.name)
        schedule.compute_at(copy, others[-1], preserve_unit_loops=True)
    # 5. Weights of a tile of channels are copied next to one another.
    if config.pack is Pack.KERNEL:
        weights = schedule.cache_read(block, windows.weights_position, "global")
        schedule.compute_at(weights, c1, preserve_unit_loops=True)
        schedule.vectorize(schedule.get_loops(weights)[-1])
    # 6. Sums stay in registers until they are stored.
    write_back(schedule, block, x1, finished=whole.output if whole.after is not None else "")
    # 7. They are set to zero before the window.
    vectorise_tile(schedule, schedule.decompose_reduction(block, (*window, *channels)[0]))
    return schedule
