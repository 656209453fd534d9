"""The text of a module under construction: its lines, and its identifiers."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

_RESERVED = """
alias break case const const_assert continue continuing default diagnostic discard else enable
false fn for if let loop override requires return struct switch true var while
array atomic bool f16 f32 i32 u32 ptr sampler texture vec2 vec3 vec4 mat2x2 mat4x4 bitcast
abs max min exp fma round select sqrt inverseSqrt workgroupBarrier subgroupAdd subgroupMax
subgroupShuffleXor unpack2x16float pack2x16float
NULL Self abstract active alignas alignof as asm asm_fragment async attribute auto await become
binding_array cast catch class co_await co_return co_yield coherent column_major common compile
compile_fragment concept const_cast consteval constexpr constinit crate debugger decltype delete
demote demote_to_helper do dynamic_cast enum explicit export extends extern external fallthrough
filter final finally friend from fxgroup get goto groupshared highp impl implements import
inline instanceof interface layout lowp macro macro_rules match mediump meta mod module move mut
mutable namespace new nil noexcept noinline nointerpolation non_coherent noncoherent
noperspective null nullptr of operator package packoffset partition pass patch pixelfragment
precise precision premerge priv protected pub public readonly ref regardless register
reinterpret_cast require resource restrict self set shared sizeof smooth snorm static
static_assert static_cast std subroutine super target template this thread_local throw trait try
type typedef typeid typename typeof union unless unorm unsafe unsized use using varying virtual
volatile wgsl where with writeonly yield
"""
"""Keywords and reserved words (WGSL, section 16), and the built-in functions that we call."""

_WORDS = frozenset(_RESERVED.split())


class Names:
    """Gives each buffer, variable and register of a program one valid, unique identifier."""

    def __init__(self, taken: tuple[str, ...] = ()) -> None:
        self._known: dict[tuple[str, str], str] = {}
        self._taken = set(taken)

    def of(self, kind: str, text: str) -> str:
        """The identifier of `text`; `kind` tells a buffer from a variable of the same name."""
        known = self._known.get((kind, text))
        if known is None:
            known = self._known[kind, text] = self._fresh(text)
        return known

    def _fresh(self, text: str) -> str:
        stem = re.sub(r"_+", "_", re.sub(r"\W", "_", text, flags=re.ASCII)).strip("_")
        if not stem or stem[0].isdigit():
            stem = f"v{stem}"
        name, count = stem, 0
        while name in self._taken or name in _WORDS:
            count += 1
            name = f"{stem}_{count}"
        self._taken.add(name)
        return name


class Writer:
    """Lines, indented by the blocks in which they stand."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._indent = ""

    def line(self, text: str) -> None:
        self._lines.append(self._indent + text)

    @contextmanager
    def block(self, head: str = "") -> Iterator[None]:
        """Lines written inside are indented, in braces behind `head`."""
        self.line(f"{head} {{" if head else "{")
        outer, self._indent = self._indent, self._indent + "  "
        yield
        self._indent = outer
        self.line("}")

    def text(self) -> str:
        return "\n".join(self._lines) + "\n"
