"""The buffers of a workload's tensors, flat, in their order."""

from kernelzoo.domain.workload import DType, Workload
from services.tuner.ir.kinds import Element, Scope
from services.tuner.ir.nodes import Buffer

ELEMENTS = {
    DType.F32: Element.F32,
    DType.F16: Element.F16,
    DType.I32: Element.I32,
    DType.I8: Element.I8,
}


def parameters_of(workload: Workload) -> tuple[Buffer, ...]:
    return tuple(
        Buffer(
            name=each.name,
            scope=Scope.PARAMETER,
            element=ELEMENTS[each.dtype],
            size=each.elements,
        )
        for each in workload.tensors
    )
