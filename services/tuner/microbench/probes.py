"""The primitives of the suite, each in its base and its advanced setting (nnJIT section 5.1).

A probe exports `main(out, lo, hi)`: hi - lo iterations that touch no memory, then the sum of its
accumulators to `out`, 16 bytes, so that nothing is dead. The faster setting of `fma` is also the
limit of one core in 128-bit WebAssembly.
"""

from dataclasses import dataclass

from services.tuner.wasm.assembler import assemble
from services.tuner.wasm.frame import Frame
from services.tuner.wasm.instructions import branch, local, memory, plain, structured, vector_const
from services.tuner.wasm.opcodes import ValueType

SUITE = 1
"""Version of the suite: raise it when a probe, or the order of the list, changes."""

LANES = 4
CHAINS = 13
"""Accumulators. With the operand and a product they fill the 15 vectors that V8 uses on x86."""

ROUNDS = 4
"""Steps of every chain in one iteration, so that the loop itself does not count."""

_OPERAND = 2.0**-27
"""Products with it are lost in rounding: accumulators stay 1 however long a probe runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    body: bytes
    flops_per_iteration: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """`requires` are the target features of the advanced setting."""

    primitive: str
    requires: tuple[str, ...]
    base: Setting
    advanced: Setting


def suite() -> tuple[Probe, ...]:
    """In the order of the bits of the primitive vector."""
    return (
        Probe(
            primitive="fma",
            requires=("relaxed-simd", "simd128"),
            base=_setting(("f32x4.mul", "f32x4.add")),
            advanced=_setting(("f32x4.relaxed_madd",)),
        ),
    )


def _setting(step: tuple[str, ...]) -> Setting:
    """Every step adds to one accumulator the product of its neighbour and the operand.

    The neighbour changes, or engines would take the product out of the loop. It changed a round
    ago, so products and sums both find their operands ready: on Zen 4, where products and sums have
    units of their own, independent chains of each reached 80 % of the limit.
    """
    frame = Frame(("out", "lo", "hi"))
    operand, *chains = (frame.fresh(ValueType.V128) for _ in range(1 + CHAINS))
    frame.emit(vector_const(_OPERAND))
    frame.set(operand)
    for chain in chains:
        frame.emit(vector_const(1.0))
        frame.set(chain)
    _open_loop(frame)
    for _ in range(ROUNDS):
        for chain, neighbour in zip(chains, (*chains[1:], chains[0]), strict=True):
            _accumulate(frame, step, chain, neighbour, operand)
    _close_loop(frame)
    _store_sum(frame, chains)
    return Setting(body=assemble(frame.function()), flops_per_iteration=ROUNDS * CHAINS * 2 * LANES)


def _accumulate(
    frame: Frame, step: tuple[str, ...], chain: int, neighbour: int, operand: int
) -> None:
    """chain + neighbour·operand: the sum is last, so both settings take the same operands."""
    for index in (neighbour, operand):
        frame.emit(local("local.get", index))
    *product, accumulate = (plain(name) for name in step)
    for instruction in product:
        frame.emit(instruction)
    frame.emit(local("local.get", chain))
    frame.emit(accumulate)
    frame.set(chain)


def _open_loop(frame: Frame) -> None:
    frame.emit(structured("block"))
    frame.get(frame.parameter("lo"))
    frame.get(frame.parameter("hi"))
    frame.emit(plain("i32.ge_u"))
    frame.emit(branch("br_if", 0))
    frame.emit(structured("loop"))


def _close_loop(frame: Frame) -> None:
    low = frame.parameter("lo")
    frame.get(low)
    frame.add_constant(1)
    frame.set(low)
    frame.get(low)
    frame.get(frame.parameter("hi"))
    frame.emit(plain("i32.lt_u"))
    frame.emit(branch("br_if", 0))
    frame.emit(plain("end"))
    frame.emit(plain("end"))


def _store_sum(frame: Frame, chains: list[int]) -> None:
    frame.get(frame.parameter("out"))
    first, *others = chains
    frame.get(first)
    for chain in others:
        frame.get(chain)
        frame.emit(plain("f32x4.add"))
    frame.emit(memory("v128.store", 2, 0))
