"""Where the buffers of one call lie in its scratch memory."""

from dataclasses import dataclass

from kernelzoo.errors import UnsupportedProgram
from services.tuner.ir.kinds import Scope
from services.tuner.ir.nodes import Allocate, Program
from services.tuner.ir.rewrite import statements
from services.tuner.ir.unsupported import unsupported

MAX_SCRATCH_BYTES = 1 << 28
ALIGNMENT_BYTES = 64
"""A cache line, so that panels do not share one with their neighbours."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScratchLayout:
    """Byte offset of each allocated buffer from the scratch address, and the bytes in all."""

    offsets: tuple[tuple[str, int], ...]
    size_bytes: int


def scratch_layout(program: Program) -> ScratchLayout:
    """A buffer has one place, even where the main nest and its tail both allocate it."""
    offsets: dict[str, int] = {}
    end = 0
    for statement in statements((program.body,)):
        if not isinstance(statement, Allocate) or statement.buffer.name in offsets:
            continue
        buffer = statement.buffer
        if buffer.scope not in (Scope.GLOBAL, Scope.LOCAL):
            raise unsupported(statement, f"the wasm printer for {buffer.scope} buffers")
        offsets[buffer.name] = end
        end += -(-buffer.size * buffer.element.size_bytes // ALIGNMENT_BYTES) * ALIGNMENT_BYTES
    if end > MAX_SCRATCH_BYTES:
        raise UnsupportedProgram(
            f"the program keeps {end} bytes between its loops; at most {MAX_SCRATCH_BYTES} are "
            "allowed: compute stages inside the loops that use them"
        )
    return ScratchLayout(offsets=tuple(offsets.items()), size_bytes=end)
