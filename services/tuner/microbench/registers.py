"""Sums of products in registers alone: fma or not, and with it the limit of one core."""

from services.tuner.codegen.wasm.function import FunctionBuilder
from services.tuner.codegen.wasm.instructions import local, plain
from services.tuner.ir.nodes import LANES
from services.tuner.microbench.loops import iterations, module, vectors

CHAINS = 13
"""Accumulators. With the operand and a product they fill the 15 vectors that V8 uses on x86."""

ROUNDS = 4
"""Steps of every chain in one iteration, so that the loop itself does not count."""

FLOPS = ROUNDS * CHAINS * 2 * LANES

_OPERAND = 2.0**-27
"""Products with it are lost in rounding: accumulators stay 1 however long a probe runs."""


def sums_of_products(step: tuple[str, ...]) -> bytes:
    """Every step adds to one accumulator the product of its neighbour and the operand.

    The neighbour changes, or engines would take the product out of the loop. It changed a round
    ago, so products and sums both find their operands ready: on Zen 4, where products and sums have
    units of their own, independent chains of each reached 80 % of the limit.
    """

    def write(function: FunctionBuilder) -> list[int]:
        (operand,) = vectors(function, 1, _OPERAND)
        chains = vectors(function, CHAINS, 1.0)

        def body() -> None:
            for _ in range(ROUNDS):
                for chain, neighbour in zip(chains, (*chains[1:], chains[0]), strict=True):
                    _accumulate(function, step, chain, neighbour, operand)

        iterations(function, body)
        return chains

    return module(write)


def _accumulate(
    function: FunctionBuilder, step: tuple[str, ...], chain: int, neighbour: int, operand: int
) -> None:
    """chain + neighbour·operand: the sum is last, so both settings take the same operands."""
    for index in (neighbour, operand):
        function.emit(local("local.get", index))
    *product, accumulate = (plain(name) for name in step)
    for instruction in product:
        function.emit(instruction)
    function.emit(local("local.get", chain))
    function.emit(accumulate)
    function.set(chain)
