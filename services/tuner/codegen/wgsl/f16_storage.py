"""f16 in storage buffers: as the type of adapters with shader-f16, or as pairs in words.

Values are f32 everywhere else. Packed, four neighbours are two words. An entry alone is half of a
word whose other half is another thread's: it is stored by two atomics, one that clears its half and
one that sets it, so that neither half is lost however threads meet.
"""

from collections.abc import Mapping

from services.tuner.codegen.wgsl.writer import Writer
from services.tuner.schedules.base.f16_storage import F16Storage

ENABLE = "enable f16;\n"
ARRAYS: Mapping[tuple[F16Storage, bool], str] = {
    (F16Storage.NATIVE, True): "array<vec4<f16>>",
    (F16Storage.NATIVE, False): "array<f16>",
    (F16Storage.PACKED, True): "array<vec2<u32>>",
    (F16Storage.PACKED, False): "array<u32>",
}
"""By the way and whether every access is of four aligned elements."""

SHARED_ARRAY = "array<atomic<u32>>"
"""Packed, where single entries are stored."""

UNPACKED, PACKED, KEPT = "four_of_halves", "halves_of_four", "keep_half"


def loaded_four(way: F16Storage, place: str) -> str:
    return f"vec4<f32>({place})" if way is F16Storage.NATIVE else f"{UNPACKED}({place})"


def stored_four(way: F16Storage, value: str) -> str:
    return f"vec4<f16>({value})" if way is F16Storage.NATIVE else f"{PACKED}({value})"


def loaded_one(way: F16Storage, name: str, index: str, *, shared: bool) -> str:
    if way is F16Storage.NATIVE:
        return f"f32({name}[{index}])"
    word = f"{name}[({index}) / 2u]"
    return f"unpack2x16float({f'atomicLoad(&{word})' if shared else word})[({index}) % 2u]"


def stored_one(way: F16Storage, name: str, index: str, value: str) -> str:
    if way is F16Storage.NATIVE:
        return f"{name}[{index}] = f16({value})"
    return f"{KEPT}({index}, {value})"


def unpacking(writer: Writer) -> None:
    with writer.block(f"fn {UNPACKED}(words: vec2<u32>) -> vec4<f32>"):
        writer.line("return vec4<f32>(unpack2x16float(words.x), unpack2x16float(words.y));")


def packing(writer: Writer) -> None:
    with writer.block(f"fn {PACKED}(four: vec4<f32>) -> vec2<u32>"):
        writer.line("return vec2<u32>(pack2x16float(four.xy), pack2x16float(four.zw));")


def keeping(writer: Writer, name: str) -> None:
    """Stores one entry of the buffer of that name."""
    with writer.block(f"fn {KEPT}(index: u32, value: f32)"):
        writer.line("let shift = index % 2u * 16u;")
        writer.line("let half = pack2x16float(vec2<f32>(value, 0.0)) & 0xffffu;")
        writer.line(f"atomicAnd(&{name}[index / 2u], ~(0xffffu << shift));")
        writer.line(f"atomicOr(&{name}[index / 2u], half << shift);")
