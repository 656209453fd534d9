"""Where buffers lie in a module, and the text of their loads and stores."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from msgspec.structs import replace

from services.tuner.codegen.wgsl.halves import (
    ARRAYS,
    SHARED_ARRAY,
    loaded_four,
    loaded_one,
    stored_four,
    stored_one,
)
from services.tuner.codegen.wgsl.indices import Indices
from services.tuner.ir.affine import Affine
from services.tuner.ir.kinds import Element, Scope
from services.tuner.ir.nodes import Buffer, Load
from services.tuner.ir.unsupported import unsupported
from services.tuner.schedules.base.f16_storage import Halves

WIDE = 4
SCRATCH = "scratch"


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """`scalar` buffers are arrays of single elements, all others of vec4. Four i8 lie in one i32,
    the first in its lowest bits: WGSL has no smaller type. f16 lie as `halves` says.

    Scratch buffers are parts of one binding: `offsets` are where they start, in elements.
    """

    indices: Indices
    scalar: frozenset[str]
    offsets: Mapping[str, int] = field(default_factory=dict)
    halves: Halves = Halves.PACKED
    output: str = ""

    def wide(self, buffer: Buffer) -> bool:
        return (SCRATCH if buffer.name in self.offsets else buffer.name) not in self.scalar

    def array_type(self, buffer: Buffer, size: int | None = None) -> str:
        """`size` counts elements; a binding has as many as its buffer."""
        if buffer.element is Element.I8 and size is None:
            return "array<i32>"
        if buffer.element is Element.F16:
            return SHARED_ARRAY if self._shared(buffer) else ARRAYS[self.halves, self.wide(buffer)]
        held = _element(buffer)
        if not self.wide(buffer):
            return f"array<{held}, {size}>" if size else f"array<{held}>"
        return f"array<vec4<{held}>, {-(-size // WIDE)}>" if size else f"array<vec4<{held}>>"

    def load(self, load: Load) -> str:
        if load.buffer.element is Element.F16:
            return self._load_halves(load)
        narrow = load.buffer.element is Element.I8
        if not narrow and (load.lanes == 1 or self.wide(load.buffer)):
            return self.place(load.buffer, load.index)
        read = self._byte if narrow else self.place
        parts = ", ".join(read(load.buffer, at) for at in _lanes(load.index, load.lanes))
        return f"{type_text(load.buffer.element.loaded, load.lanes)}({parts})"

    def store(self, buffer: Buffer, index: Affine, value: str) -> str:
        """Of one place: a vec4 where the buffer is of those."""
        if buffer.element is not Element.F16:
            return f"{self.place(buffer, index)} = {value}"
        name, wide = self.indices.names.of("buffer", buffer.name), self.wide(buffer)
        text = self.indices.text(index, WIDE if wide else 1)
        if wide:
            return f"{name}[{text}] = {stored_four(self.halves, value)}"
        return stored_one(self.halves, name, text, value)

    def _load_halves(self, load: Load) -> str:
        name = self.indices.names.of("buffer", load.buffer.name)
        if self.wide(load.buffer):
            return loaded_four(self.halves, f"{name}[{self.indices.text(load.index, WIDE)}]")
        shared = self._shared(load.buffer)
        parts = [
            loaded_one(self.halves, name, self.indices.text(at), shared=shared)
            for at in _lanes(load.index, load.lanes)
        ]
        return parts[0] if load.lanes == 1 else f"vec4<f32>({', '.join(parts)})"

    def _shared(self, buffer: Buffer) -> bool:
        """Whether threads store single halves of words."""
        packed = self.halves is Halves.PACKED and not self.wide(buffer)
        return packed and buffer.name == self.output

    def _byte(self, buffer: Buffer, index: Affine) -> str:
        """An i8 with its sign."""
        name, at = self.indices.names.of("buffer", buffer.name), self.indices.text(index)
        return f"extractBits({name}[({at}) / 4u], ({at}) % 4u * 8u, 8u)"

    def stores(self, buffer: Buffer, index: Affine, values: Sequence[str]) -> Iterator[str]:
        """Of the elements that four lanes of a scalar buffer are, one by one."""
        for at, value in zip(_lanes(index, len(values)), values, strict=True):
            yield self.store(buffer, at, value)

    def place(self, buffer: Buffer, index: Affine) -> str:
        _element(buffer)
        start = self.offsets.get(buffer.name)
        at = index if not start else replace(index, constant=index.constant + start)
        text = self.indices.text(at, WIDE if self.wide(buffer) else 1)
        names = self.indices.names
        if start is None:
            return f"{names.of('buffer', buffer.name)}[{text}]"
        return f"{names.of('binding', SCRATCH)}[{text}]"


def type_text(element: Element, lanes: int) -> str:
    return f"vec{lanes}<{element}>" if lanes > 1 else str(element)


def _lanes(index: Affine, lanes: int) -> Iterator[Affine]:
    for lane in range(lanes):
        yield replace(index, constant=index.constant + lane)


def _element(buffer: Buffer) -> Element:
    if buffer.element not in (Element.F32, Element.I32):
        raise unsupported(buffer, f"the WGSL printer for {buffer.element} elements")
    return buffer.element


def scratch_offsets(buffers: tuple[Buffer, ...]) -> tuple[dict[str, int], int]:
    """First element of each scratch buffer, and the elements in all; each starts at a vec4."""
    offsets: dict[str, int] = {}
    end = 0
    for buffer in buffers:
        if buffer.scope is Scope.GLOBAL and buffer.name not in offsets:
            offsets[buffer.name] = end
            end += -(-buffer.size // WIDE) * WIDE
    return offsets, end
