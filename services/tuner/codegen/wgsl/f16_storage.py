"""Loads and stores of f16 buffers: native arrays of f16, or two f16 packed into each u32.

Kernels compute in f32. Packed, four neighbours are two words. A store of a single entry changes
half of a word whose other half may be stored by another thread at the same time, so it is two
atomics, one that clears its half and one that sets it: no order of threads loses a half.
"""

from collections.abc import Mapping

from services.tuner.codegen.text import Writer
from services.tuner.ir.f16_storage import F16Storage

ENABLE = "enable f16;\n"
ARRAYS: Mapping[tuple[F16Storage, bool], str] = {
    (F16Storage.NATIVE, True): "array<vec4<f16>>",
    (F16Storage.NATIVE, False): "array<f16>",
    (F16Storage.PACKED, True): "array<vec2<u32>>",
    (F16Storage.PACKED, False): "array<u32>",
}
"""By storage and whether every access is of four aligned elements."""

SHARED_ARRAY = "array<atomic<u32>>"
"""The binding of a packed buffer into which single entries are stored."""

UNPACK, PACK, STORE_ONE = "four_of_halves", "halves_of_four", "keep_half"


def load_four(storage: F16Storage, place: str) -> str:
    return f"vec4<f32>({place})" if storage is F16Storage.NATIVE else f"{UNPACK}({place})"


def store_four(storage: F16Storage, value: str) -> str:
    return f"vec4<f16>({value})" if storage is F16Storage.NATIVE else f"{PACK}({value})"


def load_one(storage: F16Storage, name: str, index: str, *, shared: bool) -> str:
    if storage is F16Storage.NATIVE:
        return f"f32({name}[{index}])"
    word = f"{name}[({index}) / 2u]"
    return f"unpack2x16float({f'atomicLoad(&{word})' if shared else word})[({index}) % 2u]"


def store_one(storage: F16Storage, name: str, function: str, index: str, value: str) -> str:
    """`function` is that of `write_store_function`."""
    if storage is F16Storage.NATIVE:
        return f"{name}[{index}] = f16({value})"
    return f"{function}({index}, {value})"


def write_unpack_function(writer: Writer) -> None:
    with writer.block(f"fn {UNPACK}(words: vec2<u32>) -> vec4<f32>"):
        writer.line("return vec4<f32>(unpack2x16float(words.x), unpack2x16float(words.y));")


def write_pack_function(writer: Writer) -> None:
    with writer.block(f"fn {PACK}(four: vec4<f32>) -> vec2<u32>"):
        writer.line("return vec2<u32>(pack2x16float(four.xy), pack2x16float(four.zw));")


def write_store_function(writer: Writer, name: str, function: str) -> None:
    """The function that stores one entry of the buffer of that name."""
    with writer.block(f"fn {function}(index: u32, value: f32)"):
        writer.line("let shift = index % 2u * 16u;")
        writer.line("let half = pack2x16float(vec2<f32>(value, 0.0)) & 0xffffu;")
        writer.line(f"atomicAnd(&{name}[index / 2u], ~(0xffffu << shift));")
        writer.line(f"atomicOr(&{name}[index / 2u], half << shift);")
