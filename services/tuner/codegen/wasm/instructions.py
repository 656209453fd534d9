"""The WebAssembly instructions that kernels use, and their binary encoding.

Each has a name, an opcode, the types that it pops and pushes, and immediates. Encodings are those
of the WebAssembly core specification 3.0, section 5.4; relaxed SIMD instructions are in the same
section (prefix 0xFD, from 0x100 on). Integers are encoded as LEB128 (section 5.2.2).

There is one constructor for each kind of immediate, so that operands cannot be mixed up. Equal
instructions are one object, made and encoded once: a kernel repeats a few dozen of them a thousand
times.
"""

from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from struct import pack
from typing import NamedTuple


def unsigned_leb128(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def signed_leb128(value: int) -> bytes:
    out = bytearray()
    while not -0x40 <= value < 0x40:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value & 0x7F)
    return bytes(out)


class ValueType(StrEnum):
    I32 = "i32"
    F32 = "f32"
    V128 = "v128"


VALUE_TYPE_BYTE = {ValueType.I32: 0x7F, ValueType.F32: 0x7D, ValueType.V128: 0x7B}


class Immediate(StrEnum):
    """The operands that follow an opcode in the code.

    MEMORY is (alignment exponent, offset), VECTOR four f32, INTEGERS four i32, LANES sixteen bytes.
    """

    NONE = "none"
    LOCAL = "local"
    LABEL = "label"
    BLOCK = "block"
    I32 = "i32"
    F32 = "f32"
    VECTOR = "vector"
    INTEGERS = "integers"
    MEMORY = "memory"
    LANE = "lane"
    LANES = "lanes"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Opcode:
    """Compared by identity: each is one value of `OPCODES`."""

    name: str
    encoding: bytes
    pops: tuple[ValueType, ...]
    pushes: tuple[ValueType, ...]
    immediate: Immediate


_LETTERS = {"i": ValueType.I32, "f": ValueType.F32, "v": ValueType.V128}
_SIMD = 0xFD

_TABLE = (
    # name, prefix and code, pops -> pushes, immediate
    ("block", (0x02,), "->", Immediate.BLOCK),
    ("loop", (0x03,), "->", Immediate.BLOCK),
    ("if", (0x04,), "i->", Immediate.BLOCK),
    ("else", (0x05,), "->", Immediate.NONE),
    ("end", (0x0B,), "->", Immediate.NONE),
    ("br_if", (0x0D,), "i->", Immediate.LABEL),
    ("local.get", (0x20,), "->", Immediate.LOCAL),
    ("local.set", (0x21,), "->", Immediate.LOCAL),
    ("local.tee", (0x22,), "->", Immediate.LOCAL),
    ("select (result i32)", (0x1C, 0x01, 0x7F), "iii->i", Immediate.NONE),
    ("select (result f32)", (0x1C, 0x01, 0x7D), "ffi->f", Immediate.NONE),
    ("i32.load", (0x28,), "i->i", Immediate.MEMORY),
    ("f32.load", (0x2A,), "i->f", Immediate.MEMORY),
    ("i32.load8_s", (0x2C,), "i->i", Immediate.MEMORY),
    ("i32.store", (0x36,), "ii->", Immediate.MEMORY),
    ("f32.store", (0x38,), "if->", Immediate.MEMORY),
    ("i32.store8", (0x3A,), "ii->", Immediate.MEMORY),
    ("i32.const", (0x41,), "->i", Immediate.I32),
    ("f32.const", (0x43,), "->f", Immediate.F32),
    ("i32.eq", (0x46,), "ii->i", Immediate.NONE),
    ("i32.ne", (0x47,), "ii->i", Immediate.NONE),
    ("i32.lt_s", (0x48,), "ii->i", Immediate.NONE),
    ("i32.le_s", (0x4C,), "ii->i", Immediate.NONE),
    ("i32.ge_s", (0x4E,), "ii->i", Immediate.NONE),
    ("i32.ge_u", (0x4F,), "ii->i", Immediate.NONE),
    ("i32.lt_u", (0x49,), "ii->i", Immediate.NONE),
    ("f32.eq", (0x5B,), "ff->i", Immediate.NONE),
    ("f32.ne", (0x5C,), "ff->i", Immediate.NONE),
    ("f32.lt", (0x5D,), "ff->i", Immediate.NONE),
    ("f32.le", (0x5F,), "ff->i", Immediate.NONE),
    ("i32.add", (0x6A,), "ii->i", Immediate.NONE),
    ("i32.sub", (0x6B,), "ii->i", Immediate.NONE),
    ("i32.mul", (0x6C,), "ii->i", Immediate.NONE),
    ("i32.div_s", (0x6D,), "ii->i", Immediate.NONE),
    ("i32.rem_s", (0x6F,), "ii->i", Immediate.NONE),
    ("i32.and", (0x71,), "ii->i", Immediate.NONE),
    ("i32.or", (0x72,), "ii->i", Immediate.NONE),
    ("i32.xor", (0x73,), "ii->i", Immediate.NONE),
    ("i32.shl", (0x74,), "ii->i", Immediate.NONE),
    ("i32.shr_s", (0x75,), "ii->i", Immediate.NONE),
    ("f32.abs", (0x8B,), "f->f", Immediate.NONE),
    ("f32.ceil", (0x8D,), "f->f", Immediate.NONE),
    ("f32.floor", (0x8E,), "f->f", Immediate.NONE),
    ("f32.nearest", (0x90,), "f->f", Immediate.NONE),
    ("f32.sqrt", (0x91,), "f->f", Immediate.NONE),
    ("f32.add", (0x92,), "ff->f", Immediate.NONE),
    ("f32.sub", (0x93,), "ff->f", Immediate.NONE),
    ("f32.mul", (0x94,), "ff->f", Immediate.NONE),
    ("f32.div", (0x95,), "ff->f", Immediate.NONE),
    ("f32.min", (0x96,), "ff->f", Immediate.NONE),
    ("f32.max", (0x97,), "ff->f", Immediate.NONE),
    ("f32.convert_i32_s", (0xB2,), "i->f", Immediate.NONE),
    ("i32.reinterpret_f32", (0xBC,), "f->i", Immediate.NONE),
    ("f32.reinterpret_i32", (0xBE,), "i->f", Immediate.NONE),
    ("i32.trunc_sat_f32_s", (0xFC, 0x00), "f->i", Immediate.NONE),
    ("v128.load", (_SIMD, 0x00), "i->v", Immediate.MEMORY),
    ("v128.load32_splat", (_SIMD, 0x09), "i->v", Immediate.MEMORY),
    ("v128.store", (_SIMD, 0x0B), "iv->", Immediate.MEMORY),
    ("v128.const", (_SIMD, 0x0C), "->v", Immediate.VECTOR),
    ("v128.const i32x4", (_SIMD, 0x0C), "->v", Immediate.INTEGERS),
    ("i8x16.shuffle", (_SIMD, 0x0D), "vv->v", Immediate.LANES),
    ("i32x4.splat", (_SIMD, 0x11), "i->v", Immediate.NONE),
    ("f32x4.splat", (_SIMD, 0x13), "f->v", Immediate.NONE),
    ("i32x4.extract_lane", (_SIMD, 0x1B), "v->i", Immediate.LANE),
    ("i32x4.replace_lane", (_SIMD, 0x1C), "vi->v", Immediate.LANE),
    ("f32x4.extract_lane", (_SIMD, 0x1F), "v->f", Immediate.LANE),
    ("f32x4.replace_lane", (_SIMD, 0x20), "vf->v", Immediate.LANE),
    ("i32x4.eq", (_SIMD, 0x37), "vv->v", Immediate.NONE),
    ("i32x4.ne", (_SIMD, 0x38), "vv->v", Immediate.NONE),
    ("i32x4.lt_s", (_SIMD, 0x39), "vv->v", Immediate.NONE),
    ("i32x4.le_s", (_SIMD, 0x3D), "vv->v", Immediate.NONE),
    ("f32x4.eq", (_SIMD, 0x41), "vv->v", Immediate.NONE),
    ("f32x4.ne", (_SIMD, 0x42), "vv->v", Immediate.NONE),
    ("f32x4.lt", (_SIMD, 0x43), "vv->v", Immediate.NONE),
    ("f32x4.le", (_SIMD, 0x45), "vv->v", Immediate.NONE),
    ("v128.and", (_SIMD, 0x4E), "vv->v", Immediate.NONE),
    ("v128.andnot", (_SIMD, 0x4F), "vv->v", Immediate.NONE),
    ("v128.or", (_SIMD, 0x50), "vv->v", Immediate.NONE),
    ("v128.xor", (_SIMD, 0x51), "vv->v", Immediate.NONE),
    ("v128.bitselect", (_SIMD, 0x52), "vvv->v", Immediate.NONE),
    ("v128.load32_zero", (_SIMD, 0x5C), "i->v", Immediate.MEMORY),
    ("f32x4.ceil", (_SIMD, 0x67), "v->v", Immediate.NONE),
    ("f32x4.floor", (_SIMD, 0x68), "v->v", Immediate.NONE),
    ("f32x4.nearest", (_SIMD, 0x6A), "v->v", Immediate.NONE),
    ("i32x4.extadd_pairwise_i16x8_s", (_SIMD, 0x7E), "v->v", Immediate.NONE),
    ("i8x16.narrow_i16x8_u", (_SIMD, 0x66), "vv->v", Immediate.NONE),
    ("i16x8.narrow_i32x4_s", (_SIMD, 0x85), "vv->v", Immediate.NONE),
    ("i16x8.extend_low_i8x16_s", (_SIMD, 0x87), "v->v", Immediate.NONE),
    ("i16x8.shl", (_SIMD, 0x8B), "vi->v", Immediate.NONE),
    ("i16x8.shr_s", (_SIMD, 0x8C), "vi->v", Immediate.NONE),
    ("i32x4.extend_low_i16x8_s", (_SIMD, 0xA7), "v->v", Immediate.NONE),
    ("i32x4.shl", (_SIMD, 0xAB), "vi->v", Immediate.NONE),
    ("i32x4.shr_s", (_SIMD, 0xAC), "vi->v", Immediate.NONE),
    ("i32x4.add", (_SIMD, 0xAE), "vv->v", Immediate.NONE),
    ("i32x4.sub", (_SIMD, 0xB1), "vv->v", Immediate.NONE),
    ("i32x4.mul", (_SIMD, 0xB5), "vv->v", Immediate.NONE),
    ("i32x4.min_s", (_SIMD, 0xB6), "vv->v", Immediate.NONE),
    ("i32x4.max_s", (_SIMD, 0xB8), "vv->v", Immediate.NONE),
    ("i32x4.dot_i16x8_s", (_SIMD, 0xBA), "vv->v", Immediate.NONE),
    ("f32x4.abs", (_SIMD, 0xE0), "v->v", Immediate.NONE),
    ("f32x4.sqrt", (_SIMD, 0xE3), "v->v", Immediate.NONE),
    ("f32x4.add", (_SIMD, 0xE4), "vv->v", Immediate.NONE),
    ("f32x4.sub", (_SIMD, 0xE5), "vv->v", Immediate.NONE),
    ("f32x4.mul", (_SIMD, 0xE6), "vv->v", Immediate.NONE),
    ("f32x4.div", (_SIMD, 0xE7), "vv->v", Immediate.NONE),
    ("f32x4.pmin", (_SIMD, 0xEA), "vv->v", Immediate.NONE),
    ("f32x4.pmax", (_SIMD, 0xEB), "vv->v", Immediate.NONE),
    ("i32x4.trunc_sat_f32x4_s", (_SIMD, 0xF8), "v->v", Immediate.NONE),
    ("f32x4.convert_i32x4_s", (_SIMD, 0xFA), "v->v", Immediate.NONE),
    ("f32x4.relaxed_madd", (_SIMD, 0x105), "vvv->v", Immediate.NONE),
    ("i32x4.relaxed_laneselect", (_SIMD, 0x10B), "vvv->v", Immediate.NONE),
    ("i16x8.relaxed_dot_i8x16_i7x16_s", (_SIMD, 0x112), "vv->v", Immediate.NONE),
    ("i32x4.relaxed_dot_i8x16_i7x16_add_s", (_SIMD, 0x113), "vvv->v", Immediate.NONE),
)


def _encoding(code: tuple[int, ...]) -> bytes:
    first, *rest = code
    return bytes((first,)) + b"".join(unsigned_leb128(part) for part in rest)


def _types(letters: str) -> tuple[ValueType, ...]:
    return tuple(_LETTERS[letter] for letter in letters)


OPCODES = {
    name: Opcode(
        name=name,
        encoding=_encoding(code),
        pops=_types(effect.split("->")[0]),
        pushes=_types(effect.split("->")[1]),
        immediate=immediate,
    )
    for name, code, effect, immediate in _TABLE
}


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
    """An instruction without immediates."""
    return _make(name, Immediate.NONE, (), b"")


@lru_cache(maxsize=8)
def structured(name: str) -> Instruction:
    """`block`, `loop` or `if` that takes and leaves nothing (block type 0x40)."""
    return _make(name, Immediate.BLOCK, (), b"\x40")


@lru_cache(maxsize=4096)
def local(name: str, index: int) -> Instruction:
    return _make(name, Immediate.LOCAL, (index,), unsigned_leb128(index))


@lru_cache(maxsize=64)
def branch(name: str, depth: int) -> Instruction:
    return _make(name, Immediate.LABEL, (depth,), unsigned_leb128(depth))


@lru_cache(maxsize=16384)
def memory(name: str, alignment_exponent: int, offset_bytes: int) -> Instruction:
    """The alignment is a hint: 2 says that the address is a multiple of 4."""
    encoded = unsigned_leb128(alignment_exponent) + unsigned_leb128(offset_bytes)
    return _make(name, Immediate.MEMORY, (alignment_exponent, offset_bytes), encoded)


@lru_cache(maxsize=4096)
def i32_const(value: int) -> Instruction:
    return _make("i32.const", Immediate.I32, (value,), signed_leb128(value))


def f32_const(value: float) -> Instruction:
    return _make("f32.const", Immediate.F32, (value,), pack("<f", value))


def vector_const(value: float) -> Instruction:
    """Puts one f32 into all four lanes."""
    return _make("v128.const", Immediate.VECTOR, (value,), pack("<4f", *(value,) * 4))


@lru_cache(maxsize=256)
def integers_const(value: int) -> Instruction:
    """Puts one i32 into all four lanes."""
    encoded = pack("<4i", *(value,) * 4)
    return _make("v128.const i32x4", Immediate.INTEGERS, (value,), encoded)


@lru_cache(maxsize=16)
def of_lane(name: str, lane: int) -> Instruction:
    """extract_lane or replace_lane of a type."""
    return _make(name, Immediate.LANE, (lane,), bytes((lane,)))


@lru_cache(maxsize=64)
def shuffle(lanes: tuple[int, ...]) -> Instruction:
    """Takes lanes of four bytes: 0 to 3 are those of the first operand, 4 to 7 of the second."""
    places = tuple(4 * lane + byte for lane in lanes for byte in range(4))
    return _make("i8x16.shuffle", Immediate.LANES, places, bytes(places))


def _make(
    name: str, immediate: Immediate, operands: tuple[int | float, ...], encoded: bytes
) -> Instruction:
    opcode = OPCODES[name]
    if opcode.immediate is not immediate:
        raise ValueError(f"{name} takes {opcode.immediate}, not {immediate}")
    return Instruction(opcode, operands, opcode.encoding + encoded)
