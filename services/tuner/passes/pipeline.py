"""The order of the passes, from a scheduled program to one that a code generator can print.

`PassOptions` is what a schedule chooses for its kernel. `PassSwitches` turns single passes off, for
the ablation and the microbenchmarks alone: kernels that are served are compiled with all of them.
"""

from dataclasses import dataclass

from services.tuner.ir.nodes import BinaryOp, MathFunction, Program
from services.tuner.passes.address_strength_reduction import reduce_address_strength
from services.tuner.passes.expression_builder import Native
from services.tuner.passes.fma_contraction import contract_fma
from services.tuner.passes.if_conversion import convert_ifs
from services.tuner.passes.loop_invariant_code_motion import hoist_lets, hoist_vectors
from services.tuner.passes.loop_partition import partition_loops
from services.tuner.passes.loop_unswitching import unswitch_loops
from services.tuner.passes.math_functions import expand_calls, has_calls
from services.tuner.passes.partial_sums import with_partial_sums
from services.tuner.passes.plain_extremes import with_plain_extremes
from services.tuner.passes.scalar_replacement import promote_to_registers
from services.tuner.passes.unrolling import scalarise, unroll
from services.tuner.passes.vectorise import vectorise_inner_loops


@dataclass(frozen=True, slots=True, kw_only=True)
class PassSwitches:
    """The three passes of nnJIT's ablation (section 4.3, Table 5) and two more.

    `vectorise`: VECTOR loops become values of four lanes, instead of four scalar copies.
    `offset_immediate`: the constant part of an address goes into the load or store instruction.
    `load_splat`: a load whose value is broadcast is one instruction, `v128.load32_splat`.
    `scalar_replacement`: local buffers and repeated loads live in registers (wasm locals).
    `strength_reduction`: addresses are pointers that loops step, instead of products.
    """

    vectorise: bool = True
    offset_immediate: bool = True
    load_splat: bool = True
    scalar_replacement: bool = True
    strength_reduction: bool = True


ALL_PASSES = PassSwitches()

NATIVE: Native = frozenset(
    {
        MathFunction.EXP,
        MathFunction.SQRT,
        MathFunction.RSQRT,
        MathFunction.NEAREST,
        MathFunction.ABS,
        MathFunction.FLOOR,
        MathFunction.CEIL,
    }
)
"""Math functions that WGSL has and that are accurate enough.

Its exp may be off by 3 + 2·|x| ulp. Its tanh may be any quotient of those, which overflows from
45 on and cancels near 0 (WGSL, section 15.7.4.1), so tanh is expanded. Its log and sin are bounded
absolutely, sin within [-π, π] alone, and its pow is exp2(y · log2(x)): they are expanded too."""

NATIVE_OF_JAVASCRIPT: Native = (NATIVE - {MathFunction.RSQRT}) | {
    MathFunction.TANH,
    MathFunction.LOG,
    MathFunction.EXPM1,
    MathFunction.LOG1P,
    BinaryOp.FMOD,
    MathFunction.SIN,
    MathFunction.COS,
}
"""Functions of `Math`, in float64: far more exact than a float32 can be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PassOptions:
    """Options of a schedule, like a compiler's fast-math and vectoriser flags.

    `fma` contracts a product and a sum into a multiply-add, which rounds once (clang's
    `-ffp-contract=fast`). `vectors` is how many vectors of four lanes one iteration of an innermost
    loop computes; 0 turns auto-vectorisation off, for schedules that vectorise loops themselves.
    """

    fma: bool = False
    vectors: int = 0


def run_passes(program: Program, switches: PassSwitches, options: PassOptions) -> Program:
    """For WebAssembly, which has neither arrays in registers nor addresses with an index."""
    program = with_partial_sums(program)
    if not switches.vectorise:
        program = scalarise(program)
    if options.fma:
        program = contract_fma(program)
    program = partition_loops(without_invariants(with_plain_extremes(program)))
    if options.vectors:
        program = vectorise_inner_loops(program, options.vectors)
    # The common program has no math function; the passes for them would only walk over it.
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


def without_invariants(program: Program) -> Program:
    """Moves variables and conditions out of loops that do not change them: those that stand in the
    branch of such a condition, too, which is a loop of its own then."""
    while (moved := unswitch_loops(hoist_lets(program))) != program:
        program = moved
    return program


def run_javascript_passes(program: Program) -> Program:
    """For JavaScript, whose values are single numbers: loops over lanes are written out."""
    # Sums in registers have float64, those in memory have not.
    program = partition_loops(without_invariants(scalarise(with_partial_sums(program))))
    calls = has_calls(program)
    program = promote_to_registers(unroll(program), replaces=True)
    if calls:
        program = expand_calls(program, fma=False, native=NATIVE_OF_JAVASCRIPT)
    return reduce_address_strength(program)


def run_gpu_passes(program: Program) -> Program:
    """For WGSL, which has registers, array indexing and the math functions of `NATIVE`.

    Loops are not partitioned: a guard that each thread evaluates once costs less than a second copy
    of the loop body. Contraction is always on, since WGSL lets every GPU contract anyway.
    """
    program = contract_fma(with_partial_sums(program))
    program = unswitch_loops(hoist_lets(program))
    calls = has_calls(program)
    program = convert_ifs(promote_to_registers(unroll(program, gathers=True), gathers=True))
    if not calls:
        return program
    return expand_calls(program, fma=True, native=NATIVE, drops_nan=True)
