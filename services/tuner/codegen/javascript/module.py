"""An ES module with one kernel (see `kernelzoo.domain.artifact` for its ABI).

    export const main = (memory) => {
      const { fround } = Math;
      const f32 = new Float32Array(memory);
      return (a, b, c, lo, hi) => {
        a >>>= 2; b >>>= 2; c >>>= 2;
        for (let m = lo, a_m = a + lo * 64; m < hi; m++, a_m += 64) {
          …
        }
      };
    };

It names nothing outside of itself but what the language has, and states all inside `main`: so
modules are linked by writing them one after the other under other names.
"""

from dataclasses import dataclass

from kernelzoo.errors import UnsupportedProgram
from services.tuner.codegen.javascript.expressions import HELPERS, Places
from services.tuner.codegen.javascript.statements import Statements
from services.tuner.codegen.scratch import ScratchLayout, scratch_layout
from services.tuner.codegen.text import Names, Writer
from services.tuner.ir.nodes import Assign, Buffer, Program
from services.tuner.ir.rewrite import statements

MAX_TEXT_BYTES = 1 << 18
_WORD_BYTES = 4
_SCRATCH = "scratch"
_FUNCTIONS = "fround imul min max abs floor ceil round sqrt exp tanh log expm1 log1p sin cos pow"
_MATH = tuple(_FUNCTIONS.split())
_ARRAYS = {
    "f32": "new Float32Array(memory)",
    "i32": "new Int32Array(memory)",
    "i8": "new Int8Array(memory)",
    "bits": "new Int32Array(1)",
    "real": "new Float32Array(bits.buffer)",
}
_NEEDED = {
    "nearest": {"round"},
    "floor_div": {"floor"},
    "bits_of": {"bits", "real"},
    "real_of": {"bits", "real"},
}
"""Helpers name these in turn."""

_RESERVED = """
arguments await break case catch class const continue debugger default delete do else enum eval
export extends false finally for function if implements import in instanceof interface let new null
package private protected public return static super switch this throw true try typeof var void
while with yield Math NaN Infinity Float32Array Int32Array Int8Array memory main scratch lo hi
"""
_WORDS = frozenset((*_RESERVED.split(), *_MATH, *_ARRAYS, *HELPERS))
_INSIDE = "    "


@dataclass(frozen=True, slots=True, kw_only=True)
class Module:
    text: str
    scratch_bytes: int


def print_module(program: Program) -> Module:
    """Raises UnsupportedProgram for a node that JavaScript kernels do not have, and for a module
    too large."""
    layout = scratch_layout(program)
    places = Places(Names(_WORDS))
    body = Writer(_INSIDE)
    parameters = _write_places(body, places, program.parameters, layout)
    _write_registers(body, places, program)
    written = Statements(body, places)
    written.range_loop(program.body)
    start = f"return ({', '.join(parameters)}, lo, hi) => {{"
    head = "".join(f"  {line}\n" for line in (*_stated(written.values.used), start))
    text = f"export const main = (memory) => {{\n{head}{body.text()}  }};\n}};\n"
    if len(text) > MAX_TEXT_BYTES:
        raise UnsupportedProgram(
            f"the module has {len(text)} bytes of text; at most {MAX_TEXT_BYTES} are allowed: "
            "unroll less"
        )
    return Module(text=text, scratch_bytes=layout.size_bytes)


def _write_places(
    writer: Writer, places: Places, parameters: tuple[Buffer, ...], layout: ScratchLayout
) -> list[str]:
    """Turns addresses into places in the typed arrays; the names of the function's parameters."""
    for buffer in parameters:
        if buffer.dtype.size_bytes == _WORD_BYTES:
            writer.line(f"{places.base(buffer)} >>>= 2;")
    for buffer, offset in layout.offsets:
        address = f"scratch + {offset}"
        place = f"({address}) >>> 2" if buffer.dtype.size_bytes == _WORD_BYTES else address
        writer.line(f"const {places.base(buffer)} = {place};")
    return [*map(places.base, parameters), *([_SCRATCH] if layout.size_bytes else [])]


def _write_registers(writer: Writer, places: Places, program: Program) -> None:
    names = {
        places.register(statement.register, lane)
        for statement in statements((program.body,))
        if isinstance(statement, Assign)
        for lane in range(statement.register.lanes)
    }
    if names:
        writer.line(f"let {', '.join(f'{name} = 0' for name in sorted(names))};")


def _stated(used: set[str]) -> list[str]:
    """Lists what the module states before its function, each after what it needs."""
    used = used.union(*(_NEEDED.get(name, set()) for name in used))
    functions = [name for name in _MATH if name in used]
    return [
        *([f"const {{ {', '.join(functions)} }} = Math;"] if functions else []),
        *(f"const {name} = {made};" for name, made in _ARRAYS.items() if name in used),
        *(f"const {name} = {made};" for name, made in HELPERS.items() if name in used),
    ]
