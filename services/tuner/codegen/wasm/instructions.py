"""Typed instructions: one function for each immediate, so that operands cannot be mixed up.

Equal instructions are one object, made and encoded once: a kernel repeats a few dozen of them a
thousand times.
"""

from functools import lru_cache
from struct import pack
from typing import NamedTuple

from services.tuner.codegen.wasm.leb128 import signed, unsigned
from services.tuner.codegen.wasm.opcodes import OPCODES, Immediate, Opcode


class Instruction(NamedTuple):
    """An opcode, its operands in the order of the text format, and its bytes."""

    opcode: Opcode
    operands: tuple[int | float, ...]
    encoding: bytes

    @property
    def text(self) -> str:
        name = self.opcode.name
        match self.opcode.immediate:
            case Immediate.NONE | Immediate.BLOCK:
                return name
            case Immediate.MEMORY:
                exponent, offset = self.operands
                return f"{name} offset={offset} align={1 << int(exponent)}"
            case Immediate.INTEGERS:
                return f"{name} {self.operands[0]}"
            case Immediate.VECTOR:
                return f"{name} f32x4 {self.operands[0]:g}"
            case Immediate.LANES:
                return f"{name} {' '.join(map(str, self.operands))}"
        return f"{name} {self.operands[0]:g}"


@lru_cache(maxsize=256)
def plain(name: str) -> Instruction:
    """An instruction without immediate."""
    return _make(name, Immediate.NONE, (), b"")


@lru_cache(maxsize=8)
def structured(name: str) -> Instruction:
    """`block`, `loop` or `if` that takes and leaves nothing (block type 0x40)."""
    return _make(name, Immediate.BLOCK, (), b"\x40")


@lru_cache(maxsize=4096)
def local(name: str, index: int) -> Instruction:
    return _make(name, Immediate.LOCAL, (index,), unsigned(index))


@lru_cache(maxsize=64)
def branch(name: str, depth: int) -> Instruction:
    return _make(name, Immediate.LABEL, (depth,), unsigned(depth))


@lru_cache(maxsize=16384)
def memory(name: str, alignment_exponent: int, offset_bytes: int) -> Instruction:
    """The alignment is a hint of what the address is known to be a multiple of."""
    encoded = unsigned(alignment_exponent) + unsigned(offset_bytes)
    return _make(name, Immediate.MEMORY, (alignment_exponent, offset_bytes), encoded)


@lru_cache(maxsize=4096)
def i32_const(value: int) -> Instruction:
    return _make("i32.const", Immediate.I32, (value,), signed(value))


@lru_cache(maxsize=256)
def f32_const(value: float) -> Instruction:
    return _make("f32.const", Immediate.F32, (value,), pack("<f", value))


@lru_cache(maxsize=256)
def vector_const(value: float) -> Instruction:
    """The same f32 in all four lanes."""
    return _make("v128.const", Immediate.VECTOR, (value,), pack("<4f", *(value,) * 4))


@lru_cache(maxsize=256)
def integers_const(value: int) -> Instruction:
    """The same i32 in all four lanes."""
    encoded = pack("<4i", *(value,) * 4)
    return _make("v128.const i32x4", Immediate.INTEGERS, (value,), encoded)


@lru_cache(maxsize=8)
def extract_lane(name: str, lane: int) -> Instruction:
    return _make(name, Immediate.LANE, (lane,), bytes((lane,)))


@lru_cache(maxsize=64)
def shuffle(lanes: tuple[int, ...]) -> Instruction:
    """Lanes of four bytes: those of the first operand are 0 to 3, of the second 4 to 7."""
    places = tuple(4 * lane + byte for lane in lanes for byte in range(4))
    return _make("i8x16.shuffle", Immediate.LANES, places, bytes(places))


def _make(
    name: str, immediate: Immediate, operands: tuple[int | float, ...], encoded: bytes
) -> Instruction:
    opcode = OPCODES[name]
    if opcode.immediate is not immediate:
        raise ValueError(f"{name} takes {opcode.immediate}, not {immediate}")
    return Instruction(opcode, operands, opcode.encoding + encoded)
