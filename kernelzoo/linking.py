"""Several kernels of ABI 1 in one module, so that a page compiles and caches a model's at once.

A kernel is a module of one shape (see `kernelzoo.domain.artifact`): a function type, the import of
the shared memory `env.memory`, one function, its export as `main`, its code. It calls nothing and
names no other index than its own locals, so that its code moves to another module as it is.

    kernels      types     imports          functions   exports              code
    0: (i32⁵)    0: i32⁵   env.memory       0: type 0   f0 → 0               body of 0
    1: (i32⁶)    1: i32⁶                    1: type 1   f1 → 1               body of 1
    2: equal to 0                                       f2 → 0

The bytes are a function of the kernels and their order. A shorter module than V8 caches is padded
by a section that engines skip. Of kernels in JavaScript, each of which states all inside its one
export, the texts follow each other under these names.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from kernelzoo.errors import InvalidInput

_HEADER = b"\0asm\1\0\0\0"
_TYPES, _IMPORTS, _FUNCTIONS, _EXPORTS, _CODE = 1, 2, 3, 7, 10
_SECTIONS = (_TYPES, _IMPORTS, _FUNCTIONS, _EXPORTS, _CODE)
_CUSTOM = 0
_LEAST_BYTES = 1_024
"""V8's code cache takes no smaller responses."""
_FUNCTION_TYPE = 0x60
_I32 = 0x7F
_MOST_PARAMETERS = 64
# One import: `env.memory`, a shared memory of 1 to 65,536 pages.
_MEMORY = b"\1\3env\6memory\2\3\1\x80\x80\4"
_FIRST_FUNCTION = b"\1\0"
_MAIN = b"\1\4main\0\0"
_LEB128_BYTES = 5
"""Bytes of a 32-bit integer at the most (WebAssembly core specification, section 5.2.2)."""


_MAIN_OF_JAVASCRIPT = b"export const main = "


def link_javascript(modules: Sequence[bytes]) -> bytes:
    """One module whose export `f3` is `main` of `modules[3]`, of ABI 1 for javascript.

    Raises InvalidInput for bytes that are no such kernel.
    """
    for place, module in enumerate(modules):
        if not module.startswith(_MAIN_OF_JAVASCRIPT) or module.count(b"\nexport ") > 0:
            raise InvalidInput(
                f"module {place} is no kernel in JavaScript of ABI 1; link what the compiler made"
            )
    return b"".join(
        b"export const f%d = %b" % (place, module.removeprefix(_MAIN_OF_JAVASCRIPT))
        for place, module in enumerate(modules)
    )


def link(modules: Sequence[bytes]) -> bytes:
    """One module whose export `f3` is `main` of `modules[3]`. Equal modules become one function.

    Raises InvalidInput for bytes that are no kernel of ABI 1.
    """
    numbers: dict[bytes, int] = {}
    for module in modules:
        numbers.setdefault(module, len(numbers))
    kernels = [_kernel(module) for module in numbers]
    types: dict[int, int] = {}
    for kernel in kernels:
        types.setdefault(kernel.parameters, len(types))
    functions = [_unsigned(types[kernel.parameters]) for kernel in kernels]
    exports = [
        _sized(f"f{name}".encode()) + b"\0" + _unsigned(numbers[module])
        for name, module in enumerate(modules)
    ]
    linked = b"".join(
        (
            _HEADER,
            _section(_TYPES, _vector([_function_type(count) for count in types])),
            _section(_IMPORTS, _MEMORY),
            _section(_FUNCTIONS, _vector(functions)),
            _section(_EXPORTS, _vector(exports)),
            _section(_CODE, _vector([_sized(kernel.code) for kernel in kernels])),
        )
    )
    missing = _LEAST_BYTES - len(linked)
    return (
        linked + _section(_CUSTOM, _sized(b"padding") + bytes(missing)) if missing > 0 else linked
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _LinkedKernel:
    """`code` is the function's locals and instructions."""

    parameters: int
    code: bytes


def _kernel(module: bytes) -> _LinkedKernel:
    if not module.startswith(_HEADER):
        raise _no_kernel("it does not begin as a module of WebAssembly does")
    sections, at = [], len(_HEADER)
    while at < len(module):
        content, end = _sized_at(module, at + 1)
        sections.append((module[at], content))
        at = end
    if tuple(number for number, _ in sections) != _SECTIONS:
        found = ", ".join(str(number) for number, _ in sections)
        raise _no_kernel(f"its sections are {found or 'none'} instead of {_SECTIONS}")
    types, imports, functions, exports, code = (content for _, content in sections)
    if imports != _MEMORY:
        raise _no_kernel("it imports something else than the shared memory env.memory")
    if functions != _FIRST_FUNCTION or exports != _MAIN:
        raise _no_kernel("it has something else than one function that it exports as main")
    return _LinkedKernel(parameters=_parameters(types), code=_only_body(code))


def _parameters(types: bytes) -> int:
    """The number of parameters of the one type, all i32, without a result."""
    count = types[2] if len(types) > 2 else 0
    if 2 <= count <= _MOST_PARAMETERS and types == _vector([_function_type(count)]):
        return count
    raise _no_kernel("its function is not of addresses and a range alone")


def _only_body(section: bytes) -> bytes:
    if section[:1] != b"\1":
        raise _no_kernel("it has not the code of one function")
    body, end = _sized_at(section, 1)
    if end != len(section) or not body.endswith(b"\x0b"):
        raise _no_kernel("the code of its function does not end where it says")
    return body


def _function_type(parameters: int) -> bytes:
    return bytes((_FUNCTION_TYPE, parameters, *(_I32,) * parameters, 0))


def _sized_at(data: bytes, at: int) -> tuple[bytes, int]:
    """The content after the size at `at`, and where it ends."""
    size = 0
    for place in range(_LEB128_BYTES):
        if at + place >= len(data):
            break
        size |= (data[at + place] & 0x7F) << 7 * place
        if data[at + place] < 0x80:
            start = at + place + 1
            if start + size <= len(data):
                return data[start : start + size], start + size
            break
    raise _no_kernel("it ends in the middle of a section")


def _no_kernel(why: str) -> InvalidInput:
    return InvalidInput(
        f"These bytes are no kernel of ABI 1: {why}. Compile the kernel again with this version."
    )


def _unsigned(value: int) -> bytes:
    """LEB128."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _sized(content: bytes) -> bytes:
    return _unsigned(len(content)) + content


def _vector(items: Sequence[bytes]) -> bytes:
    return _unsigned(len(items)) + b"".join(items)


def _section(number: int, content: bytes) -> bytes:
    return bytes((number,)) + _sized(content)
