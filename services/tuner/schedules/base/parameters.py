"""The buffers of a workload's tensors, flat, in their order."""

from kernelzoo.domain.workload import Workload
from services.tuner.ir.nodes import Buffer, Scope


def parameters_of(workload: Workload) -> tuple[Buffer, ...]:
    return tuple(
        Buffer(name=each.name, scope=Scope.PARAMETER, dtype=each.dtype, size=each.elements)
        for each in workload.tensors
    )
