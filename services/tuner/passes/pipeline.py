"""The passes in their order, from a scheduled program to one that a printer can lower."""

from dataclasses import dataclass

from services.tuner.ir.kinds import MathFunction
from services.tuner.ir.nodes import Program
from services.tuner.passes.contract import contract
from services.tuner.passes.expand import expand
from services.tuner.passes.hoist import hoist
from services.tuner.passes.inline import has_calls, inline
from services.tuner.passes.invariant import lift_invariants
from services.tuner.passes.lift import lift
from services.tuner.passes.partition import partition
from services.tuner.passes.predicate import predicate
from services.tuner.passes.registers import to_registers
from services.tuner.passes.scalar import scalar
from services.tuner.passes.switches import PassSwitches
from services.tuner.passes.unswitch import unswitch
from services.tuner.passes.vectorise import vectorise

NATIVE = frozenset(
    {
        MathFunction.EXP,
        MathFunction.SQRT,
        MathFunction.RSQRT,
        MathFunction.NEAREST,
        MathFunction.ABS,
    }
)
"""What a GPU computes well by itself. WGSL's exp may be off by 3 + 2·|x| ulp; its tanh may be any
quotient of those, which overflows from 45 on and cancels near 0 (WGSL, section 15.7.4.1)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Freedom:
    """What the passes may do beyond what the program says.

    `fma` lets products and sums round once. Innermost serial loops over consecutive memory take
    `vectors` of four lanes at once; 0 leaves them as they are.
    """

    fma: bool = False
    vectors: int = 0


def run_passes(program: Program, switches: PassSwitches, freedom: Freedom) -> Program:
    if not switches.vectors:
        program = scalar(program)
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


def run_gpu_passes(program: Program) -> Program:
    """For a printer whose language has registers, addresses and the functions of `NATIVE`.

    Loops are not cut where guards end: what a thread asks once costs less than a second copy.
    Products and sums round once where the GPU likes: WGSL promises nothing else.
    """
    program = contract(program)
    program = unswitch(lift(program))
    calls = has_calls(program)
    program = predicate(to_registers(expand(program, gathers=True), gathers=True))
    return inline(program, fma=True, native=NATIVE) if calls else program
