"""A family makes this of a candidate."""

from dataclasses import dataclass

from services.tuner import ir
from services.tuner.passes.pipeline import PassOptions

AS_STATED = PassOptions()


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduledProgram:
    """`nests` are loop nests as scheduled: one of them for wasm, for webgpu one for each dispatch,
    in order. `options` are for the passes of wasm.

    `layout` is the one of b that the kernel wants; '' is b as it lies.
    """

    nests: tuple[ir.Program, ...]
    options: PassOptions = AS_STATED
    layout: str = ""


def panels_layout(width: int) -> str:
    """The layout of a matrix in panels of so many columns; '' for 0."""
    return f"panels{width}" if width else ""
