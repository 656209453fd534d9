"""The passes in their order, from a scheduled program to one that a printer can lower."""

from services.tuner.ir.nodes import Program
from services.tuner.passes.contract import contract
from services.tuner.passes.expand import expand
from services.tuner.passes.hoist import hoist
from services.tuner.passes.inline import inline
from services.tuner.passes.partition import partition
from services.tuner.passes.registers import to_registers
from services.tuner.passes.switches import PassSwitches


def run_passes(program: Program, switches: PassSwitches, *, fma: bool) -> Program:
    """`fma` lets products and sums round once, as the candidate says."""
    if fma:
        program = contract(program)
    program = expand(partition(program))
    if switches.variable:
        program = to_registers(program)
    program = inline(program, fma=fma)
    if switches.hoist:
        program = hoist(program)
    return program
