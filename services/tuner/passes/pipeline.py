"""The passes in their order, from a scheduled program to one that a printer can lower."""

from services.tuner.ir.nodes import Program
from services.tuner.passes.contract import contract
from services.tuner.passes.expand import expand
from services.tuner.passes.hoist import hoist
from services.tuner.passes.inline import has_calls, inline
from services.tuner.passes.lift import lift
from services.tuner.passes.partition import partition
from services.tuner.passes.registers import to_registers
from services.tuner.passes.switches import PassSwitches
from services.tuner.passes.vectorise import vectorise


def run_passes(
    program: Program, switches: PassSwitches, *, fma: bool, scheduled: bool = True
) -> Program:
    """`fma` lets products and sums round once, as the candidate says.

    A program that no schedule has touched is vectorised where its innermost loops allow it.
    """
    if fma:
        program = contract(program)
    program = partition(lift(program))
    if not scheduled:
        program = vectorise(program)
    calls = has_calls(program)
    program = expand(program)
    if switches.variable:
        program = to_registers(program)
    if calls:
        program = inline(program, fma=fma)
    if switches.hoist:
        program = hoist(program)
    return program
