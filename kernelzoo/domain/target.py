"""A target is where a kernel runs: WebAssembly, WebGPU or JavaScript, with the features that it may
use."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Self

from kernelzoo.domain.dtype import DType
from kernelzoo.domain.workload import Workload
from kernelzoo.errors import InvalidInput


class TargetKind(StrEnum):
    WASM = "wasm"
    WEBGPU = "webgpu"
    JAVASCRIPT = "javascript"


MEASURED = (TargetKind.WASM, TargetKind.WEBGPU)
"""Agents measure and vote on these. Of javascript everyone is given the default kernels (ADR
69)."""


BYTE_DOTS = ("dot-of-i8", "dot-of-u8")
"""Devices on which `i32x4.relaxed_dot_i8x16_i7x16_add_s` is exact for all bytes of its second
operand have one of these. It takes the bytes as numbers with sign (`sdot` of ARM, AVX-VNNI-INT8),
or without (AVX-VNNI). Elsewhere sums of two products saturate."""

FEATURES = {
    TargetKind.WASM: (*BYTE_DOTS, "relaxed-simd", "simd128"),
    TargetKind.WEBGPU: (
        *("binding-256m", "dot-of-bytes", "invocations-512", "invocations-1024", "shader-f16"),
        "subgroups",
        *("workgroup-memory-32k", "workgroup-memory-48k", "workgroup-memory-64k"),
    ),
    TargetKind.JAVASCRIPT: (),
}
"""The features of each target. For webgpu, limits above every adapter's are features in steps:
bytes of a storage binding, invocations and bytes of memory of a workgroup. An adapter has each step
that it reaches. `dot-of-bytes` is WGSL's language extension `packed_4x8_integer_dot_product`.
For wasm a device has at most one of `dot-of-i8` and `dot-of-u8`, which a page finds by running the
instruction.
"""

DTYPES = {
    TargetKind.WASM: (DType.F32,),
    TargetKind.WEBGPU: (DType.F32, DType.F16),
    TargetKind.JAVASCRIPT: (DType.F32,),
}
"""Keys may name these dtypes for a target: WebAssembly has no instruction that reads or rounds an
f16, and not every engine of JavaScript has arrays of it."""

UNIT = {
    TargetKind.WASM: 2.0**-24,
    TargetKind.WEBGPU: 2.0**-23,
    TargetKind.JAVASCRIPT: 2.0**-24,
}
"""Largest relative error of one rounding to float32. WebAssembly rounds to nearest, and so does
JavaScript's `Math.fround`; WGSL lets sums
and products be rounded up or down (section 15.7.4), reassociated and fused (15.7.5)."""


def refuse_unsupported(workload: Workload, target: TargetKind) -> None:
    """Raises InvalidInput for a workload that has no kernels for the target. Of a program it is
    asked once its text is known."""
    if target is TargetKind.JAVASCRIPT and workload.has_states:
        raise InvalidInput(
            f"{target} has no kernels that write their inputs, as {workload.key} does; tune it for "
            f"{TargetKind.WASM} or {TargetKind.WEBGPU}"
        )
    if workload.stores_f16 and DType.F16 not in DTYPES[target]:
        names = ", ".join(DTYPES[target])
        others = " or ".join(other for other in TargetKind if DType.F16 in DTYPES[other])
        raise InvalidInput(
            f"{target} has kernels of {names} alone, not of {DType.F16} as in "
            f"{workload.key}; tune it for {others} (--target {others}), or write {names}"
        )


def parse_target(text: str) -> TargetKind:
    """Raises InvalidInput for a name that is no target."""
    if text not in tuple(TargetKind):
        raise InvalidInput(f"target {text[:40]!r} is unknown; use one of {', '.join(TargetKind)}")
    return TargetKind(text)


def parse_measured(text: str) -> TargetKind:
    """Raises InvalidInput for a name that is no target, or one that agents do not measure."""
    target = parse_target(text)
    if target not in MEASURED:
        raise InvalidInput(
            f"{target} is not measured: a page is given its default kernels when it asks for them; "
            f"use {' or '.join(MEASURED)}"
        )
    return target


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """`features` are sorted and known for the kind. Text form: `wasm+relaxed-simd+simd128`."""

    kind: TargetKind
    features: tuple[str, ...]

    @classmethod
    def of(cls, target: TargetKind, features: tuple[str, ...]) -> Self:
        """Raises InvalidInput for a feature that the target does not know."""
        unknown = sorted(set(features) - set(FEATURES[target]))
        if unknown:
            raise InvalidInput(
                f"feature {unknown[0][:40]!r} is unknown for {target}; "
                f"known are {', '.join(FEATURES[target]) or 'none'}"
            )
        return cls(kind=target, features=tuple(sorted(set(features))))

    @classmethod
    def parse(cls, text: str) -> Self:
        kind, *features = text.split("+")
        return cls.of(parse_target(kind), tuple(features))

    @classmethod
    def stored(cls, text: str) -> Self:
        """Reads a target that some version of this program wrote, as `DeviceClass.stored` does."""
        kind, *features = text.split("+")
        return cls(kind=parse_target(kind), features=tuple(features))

    def offers(self, requires: tuple[str, ...]) -> bool:
        return set(requires) <= set(self.features)

    def __str__(self) -> str:
        return "+".join((self.kind, *self.features))
