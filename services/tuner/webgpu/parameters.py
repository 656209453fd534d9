"""The buffers of a workload's tensors, flat, in their order."""

from kernelzoo.domain.workload import Workload
from services.tuner.ir.kinds import Element, Scope
from services.tuner.ir.nodes import Buffer


def parameters_of(workload: Workload) -> tuple[Buffer, ...]:
    return tuple(
        Buffer(name=each.name, scope=Scope.PARAMETER, element=Element.F32, size=each.elements)
        for each in workload.tensors
    )
