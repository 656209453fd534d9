"""A module of ABI 1 from one function (WebAssembly core specification, section 5.5)."""

from dataclasses import dataclass
from itertools import groupby

from services.tuner.codegen.wasm.instructions import Instruction, plain
from services.tuner.codegen.wasm.leb128 import unsigned
from services.tuner.codegen.wasm.opcodes import VALUE_TYPE_BYTE, ValueType

MAX_PAGES = 65_536
_HEADER = b"\0asm\1\0\0\0"
_SHARED_WITH_MAXIMUM = 0x03
_MEMORY = 0x02
_FUNCTION = 0x00
_FUNCTION_TYPE = 0x60


@dataclass(frozen=True, slots=True, kw_only=True)
class Function:
    """`main`: its i32 parameters, the types of its other locals, its body without the last end."""

    parameters: tuple[str, ...]
    locals: tuple[ValueType, ...]
    body: tuple[Instruction, ...]


def assemble(function: Function) -> bytes:
    """Imports `env.memory`, shared; exports the function as `main`."""
    i32 = VALUE_TYPE_BYTE[ValueType.I32]
    count = len(function.parameters)
    signature = bytes((_FUNCTION_TYPE,)) + unsigned(count) + bytes((i32,)) * count + unsigned(0)
    limits = bytes((_MEMORY, _SHARED_WITH_MAXIMUM)) + unsigned(1) + unsigned(MAX_PAGES)
    return b"".join(
        (
            _HEADER,
            _section(1, signature),
            _section(2, _name("env") + _name("memory") + limits),
            _section(3, unsigned(0)),
            _section(7, _name("main") + bytes((_FUNCTION,)) + unsigned(0)),
            _section(10, _sized(_code(function))),
        )
    )


def _code(function: Function) -> bytes:
    runs = [(len(list(run)), kind) for kind, run in groupby(function.locals)]
    declared = b"".join(unsigned(n) + bytes((VALUE_TYPE_BYTE[kind],)) for n, kind in runs)
    body = b"".join([instruction.encoding for instruction in function.body])
    return unsigned(len(runs)) + declared + body + plain("end").encoding


def _section(number: int, item: bytes) -> bytes:
    """A section that holds a vector of one item."""
    return bytes((number,)) + _sized(unsigned(1) + item)


def _sized(content: bytes) -> bytes:
    return unsigned(len(content)) + content


def _name(text: str) -> bytes:
    return _sized(text.encode())
