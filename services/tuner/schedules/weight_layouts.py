"""Layouts of constant weights: how b may lie, and what copies it there before a kernel runs.

    panelsW     [⌈n / W⌉][k][W]          columns beyond n are zero        matmul/wasm.py
    winogradW   [n / W][36][k][W]        transformed windows of 3 x 3     winograd/wasm.py
    quadsW      [⌈n / W⌉][k / 4][W][4]   four along k; zeros beyond n     integer_matmul/wasm.py

A kernel names the layout that it wants (`ScheduledProgram.layout`); its manifest names it, and the
kernel that copies b into it. A width is a multiple of four, and at most that of a register tile.
"""

from collections.abc import Callable
from dataclasses import dataclass

from kernelzoo.domain.workload import Workload
from kernelzoo.errors import InvalidInput
from services.tuner.ir.nodes import LANES, Program
from services.tuner.schedules.base.extents import Extents, panel_shape
from services.tuner.schedules.base.wasm_config import MAX_TILE_ELEMENTS
from services.tuner.schedules.integer_matmul import wasm as integer_matmul
from services.tuner.schedules.matmul import wasm as matmul
from services.tuner.schedules.winograd import wasm as winograd
from services.tuner.schedules.winograd.config import packed_shape


@dataclass(frozen=True, slots=True)
class WeightsLayout:
    """`program` copies b of a workload; `shape` is the one that b then has."""

    program: Callable[[Workload], Program]
    shape: Callable[[Workload], tuple[int, ...]]


def weights_layout(layout: str) -> WeightsLayout:
    """Raises InvalidInput for an id that is no layout."""
    widths = range(LANES, MAX_TILE_ELEMENTS + 1, LANES)
    known = {f"{name}{width}": (make, width) for name, make in _LAYOUTS.items() for width in widths}
    if layout not in known:
        raise InvalidInput(
            f"layout {layout[:40]!r} is unknown; use panels4, panels8, …, winograd4, … or quads4, …"
        )
    make, width = known[layout]
    return make(width)


def _panels(width: int) -> WeightsLayout:
    def shape(workload: Workload) -> tuple[int, ...]:
        extents = Extents.of_weights(workload)
        batch = (extents.batch,) if extents.batch else ()
        return (*batch, *panel_shape(extents, width))

    return WeightsLayout(
        lambda workload: matmul.packing_program(Extents.of_weights(workload), width), shape
    )


def _winograd(width: int) -> WeightsLayout:
    return WeightsLayout(
        lambda workload: winograd.packing_program(workload, width),
        lambda workload: packed_shape(workload, width),
    )


def _quads(width: int) -> WeightsLayout:
    return WeightsLayout(
        lambda workload: integer_matmul.packing_program(workload, width),
        lambda workload: integer_matmul.packed_shape(workload, width),
    )


_LAYOUTS = {"panels": _panels, "winograd": _winograd, "quads": _quads}
