"""Which passes run. All do, except where a benchmark asks what one of them is worth.

The paper's three and hoisting are those of its ablation (nnJIT section 4.3, Table 5).


The passes in their order, from a scheduled program to one that a printer can lower."""

from dataclasses import dataclass

from services.tuner.ir.nodes import MathFunction, Program
from services.tuner.passes.address_strength_reduction import reduce_address_strength
from services.tuner.passes.fma_contraction import contract_fma
from services.tuner.passes.if_conversion import convert_ifs
from services.tuner.passes.loop_invariant_code_motion import hoist_lets, hoist_vectors
from services.tuner.passes.loop_partition import partition_loops
from services.tuner.passes.loop_unswitching import unswitch_loops
from services.tuner.passes.math_functions import expand_calls, has_calls
from services.tuner.passes.scalar_replacement import promote_to_registers
from services.tuner.passes.unrolling import scalarise, unroll
from services.tuner.passes.vectorise import vectorise_inner_loops


@dataclass(frozen=True, slots=True, kw_only=True)
class PassSwitches:
    """`vectors`: loops that a schedule vectorises take four lanes at once.

    `offset`: constants move into the immediate of a load or store. `combined`: a load and a splat
    become one instruction. `variable`: accumulators and repeated loads live in wasm locals.
    `hoist`: addresses are pointers stepped by their loops.
    """

    vectorise: bool = True
    offset_immediate: bool = True
    load_splat: bool = True
    scalar_replacement: bool = True
    strength_reduction: bool = True


ALL_PASSES = PassSwitches()


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
class PassOptions:
    """What the passes may do beyond what the program says.

    `fma` lets products and sums round once. Innermost serial loops over consecutive memory take
    `vectors` of four lanes at once; 0 leaves them as they are.
    """

    fma: bool = False
    vectors: int = 0


def run_passes(program: Program, switches: PassSwitches, options: PassOptions) -> Program:
    if not switches.vectorise:
        program = scalarise(program)
    if options.fma:
        program = contract_fma(program)
    program = partition_loops(unswitch_loops(hoist_lets(program)))
    if options.vectors:
        program = vectorise_inner_loops(program, options.vectors)
    calls = has_calls(program)
    program = unroll(program)
    if switches.scalar_replacement:
        program = promote_to_registers(program, replaces=True)
    if calls:
        program = expand_calls(program, fma=options.fma)
    if calls and switches.scalar_replacement:
        program = hoist_vectors(program)
    if switches.strength_reduction:
        program = reduce_address_strength(program)
    return program


def run_gpu_passes(program: Program) -> Program:
    """For a printer whose language has registers, addresses and the functions of `NATIVE`.

    Loops are not cut where guards end: what a thread asks once costs less than a second copy.
    Products and sums round once where the GPU likes: WGSL promises nothing else.
    """
    program = contract_fma(program)
    program = unswitch_loops(hoist_lets(program))
    calls = has_calls(program)
    program = convert_ifs(promote_to_registers(unroll(program, gathers=True), gathers=True))
    return expand_calls(program, fma=True, native=NATIVE) if calls else program
