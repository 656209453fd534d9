"""The second dispatch of products of which several workgroups share each sum (split-K)."""

from collections.abc import Mapping

from services.tuner import ir
from services.tuner.passes.thread_binding import ThreadBinding, bind_threads

THREADS = 64


def added_up(
    parameters: tuple[ir.Buffer, ...], axes: Mapping[str, int], store: ir.Store
) -> ir.Program:
    """Stores an entry to a thread, from the partial sums of all workgroups: one for each value of
    the variables `axes`, the outermost first."""
    block: ir.Block = (store,)
    for name, size in reversed([*axes.items()]):
        block = ir.serial(name, size, block)
    whole = ir.program(parameters, "whole", 1, block)
    return bind_threads(whole, ThreadBinding(count=THREADS, vectors=1, vec4=True))
