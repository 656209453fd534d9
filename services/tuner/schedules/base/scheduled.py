"""What a family makes of a candidate."""

from dataclasses import dataclass

from services.tuner.ir.nodes import Program
from services.tuner.passes.pipeline import PassOptions

AS_STATED = PassOptions()


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduledProgram:
    """`nests` are loop nests as scheduled: one of them for wasm, for webgpu one for each dispatch,
    in order. `options` are for the passes of wasm.

    `panels` are the columns of a panel of b, where the kernel wants b in panels; else 0.
    """

    nests: tuple[Program, ...]
    options: PassOptions = AS_STATED
    panels: int = 0
