"""From an expanded program to the function `main` of ABI 1 (see `kernelzoo.domain.artifact`)."""

from kernelzoo.domain.dtype import DType
from services.tuner.codegen.wasm.expressions import ELEMENT_ALIGNMENT, WIDE, Expressions, lane_type
from services.tuner.codegen.wasm.function import FunctionBuilder
from services.tuner.codegen.wasm.instructions import (
    ValueType,
    branch,
    i32_const,
    memory,
    plain,
    structured,
)
from services.tuner.codegen.wasm.memory import Addresses
from services.tuner.ir.nodes import (
    Allocate,
    Assign,
    Block,
    Bound,
    If,
    Let,
    Loop,
    LoopKind,
    Statement,
    Store,
    lanes_of,
    unsupported,
)
from services.tuner.passes.pipeline import PassSwitches

_STORES = {
    (DType.F32, False): ("f32.store", ELEMENT_ALIGNMENT),
    (DType.F32, True): ("v128.store", ELEMENT_ALIGNMENT),
    (DType.I32, False): ("i32.store", ELEMENT_ALIGNMENT),
    (DType.I32, True): ("v128.store", ELEMENT_ALIGNMENT),
    (DType.I8, False): ("i32.store8", 0),
}


class Statements:
    """Writes statements into a frame."""

    def __init__(
        self, frame: FunctionBuilder, addresses: Addresses, switches: PassSwitches
    ) -> None:
        self._frame = frame
        self._addresses = addresses
        self._values = Expressions(frame, addresses, switches)

    def range_loop(self, loop: Loop) -> None:
        """Runs from lo to hi, not at all where they are equal; lo itself counts."""
        frame = self._frame
        low, high = frame.parameter("lo"), frame.parameter("hi")
        self._addresses.bind(loop.var, low, (0, loop.extent - 1))
        self._addresses.start(loop.var, loop.pointers, moved=True)
        frame.emit(structured("block"))
        frame.get(low)
        frame.get(high)
        frame.emit(plain("i32.ge_u"))
        frame.emit(branch("br_if", 0))
        frame.emit(structured("loop"))
        self._block(loop.body)
        self._addresses.step(loop.pointers)
        self._count_up(low)
        frame.get(high)
        frame.emit(plain("i32.lt_u"))
        frame.emit(branch("br_if", 0))
        frame.emit(plain("end"))
        frame.emit(plain("end"))

    def _block(self, block: Block) -> None:
        for statement in block:
            self._statement(statement)

    def _statement(self, statement: Statement) -> None:
        match statement:
            case Assign(register=register, value=value):
                self._values.push(value)
                kind = lane_type(register.lanes, register.dtype)
                self._frame.set(self._frame.named(register.name, kind))
            case Store(buffer=buffer, index=index, value=value):
                made = _STORES.get((buffer.dtype, lanes_of(value) == WIDE))
                if made is None:
                    raise unsupported(statement, f"the wasm printer for {buffer.dtype} elements")
                offset = self._addresses.push(buffer, index)
                self._values.push(value)
                self._frame.emit(memory(*made, offset))
            case Loop(kind=LoopKind.SERIAL):
                self._serial_loop(statement)
            case Loop(kind=kind):
                raise unsupported(statement, f"the wasm printer for {kind} loops")
            case Let():
                self._let(statement)
            case If():
                self._condition(statement)
            case Allocate(body=body):
                self._block(body)
            case _:
                raise unsupported(statement, "the wasm printer")

    def _serial_loop(self, loop: Loop) -> None:
        """Counts down to 0 unless the body reads the variable."""
        frame = self._frame
        counter = frame.fresh(ValueType.I32)
        self._addresses.bind(loop.var, counter, (0, loop.extent - 1))
        self._addresses.start(loop.var, loop.pointers, moved=False)
        first = frame.position
        frame.emit(i32_const(loop.extent))
        frame.set(counter)
        frame.emit(structured("loop"))
        self._block(loop.body)
        self._addresses.step(loop.pointers)
        if self._addresses.reads(loop.var):
            frame.replace(first, i32_const(0))
            self._count_up(counter)
            frame.emit(i32_const(loop.extent))
            frame.emit(plain("i32.lt_u"))
        else:
            frame.get(counter)
            frame.add_constant(-1)
            frame.set(counter)
            frame.get(counter)
        frame.emit(branch("br_if", 0))
        frame.emit(plain("end"))
        self._addresses.leave(loop.pointers)

    def _let(self, let: Let) -> None:
        local_ = self._frame.fresh(ValueType.I32)
        self._values.push(let.value)
        self._frame.set(local_)
        self._addresses.bind(let.var, local_, (let.low, let.high))
        self._addresses.start(let.var, let.pointers, moved=True)
        self._block(let.body)
        self._addresses.leave(let.pointers)

    def _count_up(self, counter: int) -> None:
        """Leaves the new count on the stack."""
        self._frame.get(counter)
        self._frame.add_constant(1)
        self._frame.set(counter)
        self._frame.get(counter)

    def _condition(self, statement: If) -> None:
        first, *others = statement.bounds
        self._bound(first)
        for bound in others:
            self._bound(bound)
            self._frame.emit(plain("i32.and"))
        self._frame.emit(structured("if"))
        self._block(statement.body)
        if statement.otherwise:
            self._frame.emit(plain("else"))
            self._block(statement.otherwise)
        self._frame.emit(plain("end"))

    def _bound(self, bound: Bound) -> None:
        self._addresses.push_index(bound.index)
        self._frame.emit(i32_const(bound.limit))
        self._frame.emit(plain("i32.lt_s"))
