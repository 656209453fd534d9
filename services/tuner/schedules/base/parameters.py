"""The buffers of a workload's tensors, flat, in their order."""

from collections.abc import Iterable

from msgspec.structs import replace

from kernelzoo.domain.workload import Workload
from services.tuner import ir
from services.tuner.schedules.base.extents import parameter_order


def parameters_of(workload: Workload) -> tuple[ir.Buffer, ...]:
    return tuple(
        ir.parameter(tensor.name, tensor.elements, tensor.dtype) for tensor in workload.tensors
    )


def with_parameter(parameters: Iterable[ir.Buffer], other: ir.Buffer) -> tuple[ir.Buffer, ...]:
    """The parameters with another buffer in the place of that of its name, as it is read."""
    return tuple(other if buffer.name == other.name else buffer for buffer in parameters)


Held = dict[str, tuple[ir.Buffer, tuple[int, ...]]]
"""Buffers of a kernel with their shapes, by the names of tensors."""


def held_by(workload: Workload) -> Held:
    """The buffers of the workload's tensors."""
    shapes = (tensor.shape for tensor in workload.tensors)
    return {b.name: (b, shape) for b, shape in zip(parameters_of(workload), shapes, strict=True)}


def in_order(program: ir.Program, workload: Workload) -> ir.Program:
    """A contraction's program, whose parameters are a, b, the inputs of the epilogue and c, with
    its parameters in the order of the workload's tensors."""
    order = parameter_order(workload)
    return replace(program, parameters=tuple(program.parameters[place] for place in order))
