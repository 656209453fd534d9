"""TVM's lowering passes, and the visit of what they leave."""

from kernelzoo.domain.dtype import DType
from services.tuner.ir.nodes import Program
from services.tuner.tir.symbols import Shape
from services.tuner.tir.tvm import IRModule, Node, s_tir
from services.tuner.tir.visit import Visit

_LOWERING = (
    s_tir.transform.LowerInitBlock(),
    s_tir.transform.PlanAndUpdateBufferAllocationLocation(),
    s_tir.transform.ConvertBlocksToOpaque(),
    s_tir.transform.CompactBufferAllocation(),
    s_tir.transform.LowerOpaqueBlock(),
)


def scheduled_program(schedule: Node, shapes: tuple[Shape, ...], range_extent: int) -> Program:
    """The schedule's function; its parameters are flat, with their true `shapes`."""
    return visited(lowered(schedule.mod), shapes, range_extent)


def visited(function: Node, shapes: tuple[Shape, ...], range_extent: int) -> Program:
    """Our loop IR of a lowered function."""
    return Visit(function, shapes).program(range_extent)


def plain_program(function: Node, held: tuple[DType, ...] = ()) -> Program:
    """Any PrimFunc, its loops as they stand, in a range of one iteration. `held` are the elements
    of its parameters where they are not what it states."""
    module = IRModule({"main": function.with_attr("global_symbol", "main")})
    return Visit(lowered(module), held=held).whole()


def lowered(module: Node) -> Node:
    """The function `main` without blocks: loops, buffers, loads and stores."""
    for lower in _LOWERING:
        module = lower(module)
    return module["main"]
