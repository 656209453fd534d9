"""The passes in their order, from a scheduled program to one that a printer can lower."""

from dataclasses import dataclass

from services.tuner.ir.nodes import Program
from services.tuner.passes.contract import contract
from services.tuner.passes.expand import expand
from services.tuner.passes.hoist import hoist
from services.tuner.passes.inline import has_calls, inline
from services.tuner.passes.invariant import lift_invariants
from services.tuner.passes.lift import lift
from services.tuner.passes.partition import partition
from services.tuner.passes.registers import to_registers
from services.tuner.passes.switches import PassSwitches
from services.tuner.passes.unswitch import unswitch
from services.tuner.passes.vectorise import vectorise


@dataclass(frozen=True, slots=True, kw_only=True)
class Freedom:
    """What the passes may do beyond what the program says.

    `fma` lets products and sums round once. Innermost serial loops over consecutive memory take
    `vectors` of four lanes at once; 0 leaves them as they are.
    """

    fma: bool = False
    vectors: int = 0


def run_passes(program: Program, switches: PassSwitches, freedom: Freedom) -> Program:
    if freedom.fma:
        program = contract(program)
    program = partition(unswitch(lift(program)))
    if freedom.vectors:
        program = vectorise(program, freedom.vectors)
    calls = has_calls(program)
    program = expand(program)
    if switches.variable:
        program = to_registers(program, replaces=True)
    if calls:
        program = inline(program, fma=freedom.fma)
    if calls and switches.variable:
        program = lift_invariants(program)
    if switches.hoist:
        program = hoist(program)
    return program
