"""A WebAssembly module with one function, `main` of ABI 1 (see `kernelzoo.domain.artifact`)."""

from dataclasses import dataclass
from itertools import groupby

from services.tuner.codegen.scratch import scratch_layout
from services.tuner.codegen.wasm.function import FunctionBuilder, WasmFunction
from services.tuner.codegen.wasm.instructions import (
    VALUE_TYPE_BYTE,
    ValueType,
    plain,
    unsigned_leb128,
)
from services.tuner.codegen.wasm.memory import Addresses
from services.tuner.codegen.wasm.statements import Statements
from services.tuner.ir.nodes import Program
from services.tuner.passes.pipeline import PassSwitches

MAX_PAGES = 65_536
_HEADER = b"\0asm\1\0\0\0"
_SHARED_WITH_MAXIMUM = 0x03
_MEMORY = 0x02
_FUNCTION = 0x00
_FUNCTION_TYPE = 0x60


@dataclass(frozen=True, slots=True, kw_only=True)
class Lowered:
    function: WasmFunction
    scratch_bytes: int


def lower(program: Program, switches: PassSwitches) -> Lowered:
    """From an optimised program to its function.

    Raises UnsupportedProgram for a node that WebAssembly kernels do not have.
    """
    layout = scratch_layout(program)
    scratch = ("scratch",) if layout.size_bytes else ()
    parameters = tuple(buffer.name for buffer in program.parameters)
    function = FunctionBuilder((*parameters, *scratch, "lo", "hi"))
    bases = {name: (index, 0) for index, name in enumerate(parameters)}
    bases |= {each.name: (len(parameters), start) for each, start in layout.offsets}
    addresses = Addresses(function, bases, switches)
    writer = Statements(function, addresses, switches)
    writer.range_loop(program.body)
    return Lowered(function=function.finish(), scratch_bytes=layout.size_bytes)


def assemble(function: WasmFunction) -> bytes:
    """The binary module (WebAssembly core specification, section 5.5), which imports the shared
    memory `env.memory` and exports the function as `main`."""
    i32 = VALUE_TYPE_BYTE[ValueType.I32]
    count = len(function.parameters)
    signature = (
        bytes((_FUNCTION_TYPE,))
        + unsigned_leb128(count)
        + bytes((i32,)) * count
        + unsigned_leb128(0)
    )
    limits = (
        bytes((_MEMORY, _SHARED_WITH_MAXIMUM)) + unsigned_leb128(1) + unsigned_leb128(MAX_PAGES)
    )
    return b"".join(
        (
            _HEADER,
            _section(1, signature),
            _section(2, _name("env") + _name("memory") + limits),
            _section(3, unsigned_leb128(0)),
            _section(7, _name("main") + bytes((_FUNCTION,)) + unsigned_leb128(0)),
            _section(10, _sized(_code(function))),
        )
    )


def _code(function: WasmFunction) -> bytes:
    runs = [(len(list(run)), kind) for kind, run in groupby(function.locals)]
    declared = b"".join(unsigned_leb128(n) + bytes((VALUE_TYPE_BYTE[kind],)) for n, kind in runs)
    body = b"".join([instruction.encoding for instruction in function.body])
    return unsigned_leb128(len(runs)) + declared + body + plain("end").encoding


def _section(number: int, item: bytes) -> bytes:
    """A section that holds a vector of one item."""
    return bytes((number,)) + _sized(unsigned_leb128(1) + item)


def _sized(content: bytes) -> bytes:
    return unsigned_leb128(len(content)) + content


def _name(text: str) -> bytes:
    return _sized(text.encode())
