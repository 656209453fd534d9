"""Memory of a kernel: how an access gets its address.

y[16*i + k + 2]   →   local.get $pointer of y[16*i + k]      with a pointer
                      f32.store offset=8

y[16*i + k + 2]   →   local.get $y, $i · 64 and $k · 4 added      without
                      f32.store offset=8
"""

from services.tuner.codegen.wasm.function import FunctionBuilder
from services.tuner.codegen.wasm.instructions import ValueType, i32_const
from services.tuner.ir.affine import Affine, Range, Terms
from services.tuner.ir.nodes import Buffer, Pointer
from services.tuner.passes.pipeline import PassSwitches


class Addresses:
    """Computes addresses; knows which local holds which loop variable and which pointer."""

    def __init__(
        self, function: FunctionBuilder, bases: dict[str, tuple[int, int]], switches: PassSwitches
    ) -> None:
        """`bases`: for each buffer, the local with its base address and a byte offset from that."""
        self._function = function
        self._bases = bases
        self._switches = switches
        self._pointers: dict[tuple[str, Terms], int] = {}
        self._variables: dict[str, int] = {}
        self._ranges: dict[str, Range] = {}
        self._read: set[str] = set()

    def bind(self, var: str, index: int, limits: Range) -> None:
        self._variables[var] = index
        self._ranges[var] = limits

    def reads(self, var: str) -> bool:
        """Returns whether code so far reads the variable itself, not only pointers of its loop."""
        return var in self._read

    def push(self, buffer: Buffer, index: Affine) -> int:
        """Pushes an address; returns the offset immediate that the load or store has to have.

        The immediate is added without wrapping at 2^32. Where the pushed address alone could be
        negative, as an unsigned number past the end of memory, the offset is added before, with
        i32.add, which wraps.
        """
        base, start = self._bases[buffer.name]
        constant = start + index.constant * buffer.dtype.size_bytes
        pointer = self._pointers.get((buffer.name, index.terms))
        self._function.get(base if pointer is None else pointer)
        if pointer is None:
            self._add_terms(index.terms, buffer.dtype.size_bytes)
        moved = Affine(constant=0, terms=index.terms).bounds(self._ranges)[0]
        reaches_below = start + moved * buffer.dtype.size_bytes < 0
        if self._switches.offset_immediate and constant >= 0 and not reaches_below:
            return constant
        self._function.add_constant(constant)
        return 0

    def push_index(self, index: Affine) -> None:
        """Pushes the value of an affine form."""
        self._function.emit(i32_const(index.constant))
        self._add_terms(index.terms, 1)

    def start(self, var: str, pointers: tuple[Pointer, ...], *, moved: bool) -> None:
        """Sets the pointers of a loop or Let for `var` = 0, or for its value if `moved`."""
        for pointer in pointers:
            parent = self._pointers.get(
                (pointer.buffer.name, pointer.parent), self._bases[pointer.buffer.name][0]
            )
            here = self._function.fresh(ValueType.I32)
            self._function.get(parent)
            if moved:
                self._function.add_product(self._variables[var], _stride_bytes(pointer))
            self._function.set(here)
            self._pointers[pointer.buffer.name, pointer.terms] = here

    def step(self, pointers: tuple[Pointer, ...]) -> None:
        """Steps the pointers of a loop to its next iteration."""
        for pointer in pointers:
            here = self._pointers[pointer.buffer.name, pointer.terms]
            self._function.get(here)
            self._function.add_constant(_stride_bytes(pointer))
            self._function.set(here)

    def leave(self, pointers: tuple[Pointer, ...]) -> None:
        for pointer in pointers:
            del self._pointers[pointer.buffer.name, pointer.terms]

    def _add_terms(self, terms: Terms, factor: int) -> None:
        for var, coefficient in terms:
            self._read.add(var)
            self._function.add_product(self._variables[var], coefficient * factor)


def _stride_bytes(pointer: Pointer) -> int:
    return pointer.stride * pointer.buffer.dtype.size_bytes
