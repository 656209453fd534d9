"""Copies of new entries into the states of a program, for loops as they are stated.

for i < 4: new_position[i] = …            stages, which read what states held before
for i < 4: position[i] = new_position[i]  then each state keeps its new entries
"""

from collections.abc import Iterator

from kernelzoo.domain.operators.expressions import Program as TensorProgram
from services.tuner.ir.affine import Affine
from services.tuner.ir.build import loop
from services.tuner.ir.nodes import Load, Loop, LoopKind, Program, Store


def state_copies(plain: Program, stated: TensorProgram) -> Iterator[Loop]:
    """A loop for each state; `plain` has the stages that states are updated by as parameters."""
    buffers = {buffer.name: buffer for buffer in plain.parameters}
    i = Affine.variable("entry")
    for update in stated.updates:
        source, state = buffers[update.stage], buffers[update.tensor]
        store = Store(buffer=state, index=i, value=Load(buffer=source, index=i))
        yield loop("entry", state.size, LoopKind.SERIAL, (store,))
