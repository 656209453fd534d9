"""Code generation for statements: loops, conditions, stores and assignments."""

from kernelzoo.domain.dtype import DType
from services.tuner.codegen.loop_ends import is_read, loop_ends, within
from services.tuner.codegen.wasm.expressions import ALIGNMENT_OF_4, Expressions, value_type
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
from services.tuner.ir.affine import Bound
from services.tuner.ir.nodes import (
    LANES,
    Allocate,
    Assign,
    Block,
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
    (DType.F32, False): ("f32.store", ALIGNMENT_OF_4),
    (DType.F32, True): ("v128.store", ALIGNMENT_OF_4),
    (DType.I32, False): ("i32.store", ALIGNMENT_OF_4),
    (DType.I32, True): ("v128.store", ALIGNMENT_OF_4),
    (DType.I8, False): ("i32.store8", 0),
}


class Statements:
    """Emits the code of statements into a function."""

    def __init__(
        self, function: FunctionBuilder, addresses: Addresses, switches: PassSwitches
    ) -> None:
        self._function = function
        self._addresses = addresses
        self._values = Expressions(function, addresses, switches)
        self._read: set[str] = set()

    def range_loop(self, loop: Loop) -> None:
        """Counts parameter lo up to hi; the body does not run where lo ≥ hi."""
        function = self._function
        low, high = function.parameter("lo"), function.parameter("hi")
        self._addresses.bind(loop.var, low, (0, loop.extent - 1))
        self._addresses.start(loop.var, loop.pointers, moved=True)
        function.emit(structured("block"))
        function.get(low)
        function.get(high)
        function.emit(plain("i32.ge_u"))
        function.emit(branch("br_if", 0))
        function.emit(structured("loop"))
        self._block(loop.body)
        self._addresses.step(loop.pointers)
        self._count_up(low)
        function.get(high)
        function.emit(plain("i32.lt_u"))
        function.emit(branch("br_if", 0))
        function.emit(plain("end"))
        function.emit(plain("end"))

    def _block(self, block: Block) -> None:
        for statement in block:
            self._statement(statement)

    def _statement(self, statement: Statement) -> None:
        match statement:
            case Assign(register=register, value=value):
                self._values.push(value)
                kind = value_type(register.lanes, register.dtype)
                self._function.set(self._function.named(register.name, kind))
            case Store(buffer=buffer, index=index, value=value):
                made = _STORES.get((buffer.dtype, lanes_of(value) == LANES))
                if made is None:
                    raise unsupported(statement, f"the wasm printer for {buffer.dtype} elements")
                offset = self._addresses.push(buffer, index)
                self._values.push(value)
                self._function.emit(memory(*made, offset))
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
        """Counts down to 0, which saves the comparison, unless the body reads the variable.

        Whether it does is known after the body only, so the start value is emitted first and
        replaced then.
        """
        function = self._function
        counter = function.fresh(ValueType.I32)
        self._addresses.bind(loop.var, counter, (0, loop.extent - 1))
        self._addresses.start(loop.var, loop.pointers, moved=False)
        first = function.position
        function.emit(i32_const(loop.extent))
        function.set(counter)
        function.emit(structured("loop"))
        ends = loop_ends(loop, self._read)
        if ends:
            self._all(ends)
            function.emit(structured("if"))
        self._block(within(loop.body) if ends else loop.body)
        self._addresses.step(loop.pointers)
        if self._addresses.reads(loop.var):
            function.replace(first, i32_const(0))
            self._count_up(counter)
            function.emit(i32_const(loop.extent))
            function.emit(plain("i32.lt_u"))
        else:
            function.get(counter)
            function.add_constant(-1)
            function.set(counter)
            function.get(counter)
        function.emit(branch("br_if", 1 if ends else 0))
        if ends:
            function.emit(plain("end"))
        function.emit(plain("end"))
        self._addresses.leave(loop.pointers)

    def _let(self, let: Let) -> None:
        variable = self._function.fresh(ValueType.I32)
        if is_read(let.value):
            self._read.add(let.var)
        self._values.push(let.value)
        self._function.set(variable)
        self._addresses.bind(let.var, variable, (let.low, let.high))
        self._addresses.start(let.var, let.pointers, moved=True)
        self._block(let.body)
        self._addresses.leave(let.pointers)

    def _count_up(self, counter: int) -> None:
        """Adds 1 to a local and leaves its new value on the stack."""
        self._function.get(counter)
        self._function.add_constant(1)
        self._function.set(counter)
        self._function.get(counter)

    def _condition(self, statement: If) -> None:
        self._all(statement.bounds)
        self._function.emit(structured("if"))
        self._block(statement.body)
        if statement.otherwise:
            self._function.emit(plain("else"))
            self._block(statement.otherwise)
        self._function.emit(plain("end"))

    def _all(self, bounds: tuple[Bound, ...]) -> None:
        first, *others = bounds
        self._bound(first)
        for bound in others:
            self._bound(bound)
            self._function.emit(plain("i32.and"))

    def _bound(self, bound: Bound) -> None:
        self._addresses.push_index(bound.index)
        self._function.emit(i32_const(bound.limit))
        self._function.emit(plain("i32.lt_s"))
