"""Seeded inputs, identical in Python and in the browser, computable entry by entry.

Element `i` of input tensor `t` under `seed` is made from `mix(seed + t·GOLDEN + i·STEP)`: for f32,
24 bits scaled to [-0.5, 0.5), which is exact; for f16, that rounded to the nearest; for i8, its
highest byte from -128 on, or from minus a limit up to it; for other integers, its remainder below
the limit, as that of an index; for i32 without a limit, all 32 bits. `mix` is the 32-bit
finaliser of MurmurHash3. The client implements
the same in `client/src/engine/seeded.ts`; both are held to `tests/golden/seeded.json`.
"""

from struct import pack, unpack

from kernelzoo.domain.dtype import DType

GOLDEN = 0x9E3779B9
STEP = 0x85EBCA77
SAMPLE_SALT = 0x27D4EB2F
SAMPLED_ENTRIES = 64
_MASK = 0xFFFFFFFF


def mix(x: int) -> int:
    """Finaliser of MurmurHash3 (fmix32): a bijection of 32-bit integers."""
    x &= _MASK
    x ^= x >> 16
    x = x * 0x85EBCA6B & _MASK
    x ^= x >> 13
    x = x * 0xC2B2AE35 & _MASK
    return x ^ x >> 16


def input_value(
    seed: int, tensor: int, index: int, dtype: DType = DType.F32, limit: int = 0
) -> float:
    """`limit` is that of the tensor."""
    bits = mix(seed + tensor * GOLDEN + index * STEP)
    match dtype:
        case DType.F32:
            return (bits >> 8) * 2.0**-24 - 0.5
        case DType.F16:
            (value,) = unpack("<e", pack("<e", (bits >> 8) * 2.0**-24 - 0.5))
            return float(value)
        case DType.I8:
            least = limit or 128
            return (bits >> 24) % (2 * least) - least
        case DType.I32 | DType.I64:
            return bits % limit if limit else bits - (bits >> 31 << 32)


def sampled_positions(seed: int, output_elements: int) -> tuple[int, ...]:
    """Flat output positions whose values an agent reports. They may repeat in tiny outputs."""
    return tuple(
        mix(seed + SAMPLE_SALT + i * STEP) % output_elements for i in range(SAMPLED_ENTRIES)
    )
