"""Places the buffers that a kernel of one thread allocates in its scratch memory."""

from dataclasses import dataclass

from kernelzoo.errors import UnsupportedProgram
from services.tuner.ir.nodes import Allocate, Buffer, Program, Scope, unsupported
from services.tuner.ir.rewrite import statements

MAX_SCRATCH_BYTES = 1 << 28
ALIGNMENT_BYTES = 64
"""A cache line, so that a packed panel shares none with another buffer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScratchLayout:
    """`offsets`: the byte offset of each allocated buffer from the scratch address."""

    offsets: tuple[tuple[Buffer, int], ...]
    size_bytes: int


def scratch_layout(program: Program) -> ScratchLayout:
    """Places buffers one after another. A buffer that both parts of a partitioned loop allocate has
    one place.

    Raises UnsupportedProgram for a buffer of another scope and for too much scratch memory.
    """
    offsets: dict[str, tuple[Buffer, int]] = {}
    end = 0
    for statement in statements((program.body,)):
        if not isinstance(statement, Allocate) or statement.buffer.name in offsets:
            continue
        buffer = statement.buffer
        if buffer.scope not in (Scope.GLOBAL, Scope.LOCAL):
            raise unsupported(statement, f"a target of one thread for {buffer.scope} buffers")
        offsets[buffer.name] = buffer, end
        end += -(-buffer.size * buffer.dtype.size_bytes // ALIGNMENT_BYTES) * ALIGNMENT_BYTES
    if end > MAX_SCRATCH_BYTES:
        raise UnsupportedProgram(
            f"the program keeps {end} bytes between its loops; at most {MAX_SCRATCH_BYTES} are "
            "allowed: compute stages inside the loops that use them"
        )
    return ScratchLayout(offsets=tuple(offsets.values()), size_bytes=end)
