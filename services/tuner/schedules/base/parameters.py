"""The buffers of a workload's tensors, flat, in their order."""

from kernelzoo.domain.dtype import DType
from kernelzoo.domain.workload import Workload
from services.tuner.ir.nodes import Buffer, Scope

DTYPES = {
    DType.F32: DType.F32,
    DType.F16: DType.F16,
    DType.I32: DType.I32,
    DType.I8: DType.I8,
}


def parameters_of(workload: Workload) -> tuple[Buffer, ...]:
    return tuple(
        Buffer(
            name=each.name,
            scope=Scope.PARAMETER,
            dtype=DTYPES[each.dtype],
            size=each.elements,
        )
        for each in workload.tensors
    )
