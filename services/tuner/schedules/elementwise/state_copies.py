"""Copies of new entries into the states of a program, for loops as they are stated.

for i < 4: new_position[i] = …            stages, which read what states held before
for i < 4: position[i] = new_position[i]  then each state keeps its new entries
"""

from collections.abc import Iterator

from kernelzoo.domain.operators.expressions import Program as TensorProgram
from services.tuner import ir


def state_copies(plain: ir.Program, stated: TensorProgram) -> Iterator[ir.Loop]:
    """A loop for each state; `plain` has the stages that states are updated by as parameters."""
    buffers = {buffer.name: buffer for buffer in plain.parameters}
    i = ir.variable("entry")
    for update in stated.updates:
        source, state = buffers[update.stage], buffers[update.tensor]
        store = state.store(i, source[i])
        yield ir.loop("entry", state.size, (store,))
