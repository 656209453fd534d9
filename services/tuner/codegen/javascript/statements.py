"""Statements as JavaScript text, inside the function of a kernel."""

from collections.abc import Iterable, Iterator

from services.tuner.codegen.javascript.expressions import VIEWS, Expressions, Places
from services.tuner.codegen.text import Writer
from services.tuner.ir.nodes import (
    Allocate,
    Assign,
    Block,
    Expression,
    If,
    Let,
    Loop,
    LoopKind,
    Pointer,
    Register,
    RegisterRead,
    Shuffle,
    Statement,
    Store,
    lanes_of,
    unsupported,
)
from services.tuner.ir.rewrite import operands


class Statements:
    """Writes the statements of one kernel. Registers are stated before."""

    def __init__(self, writer: Writer, places: Places) -> None:
        self._writer = writer
        self._places = places
        self.values = Expressions(places)

    def range_loop(self, loop: Loop) -> None:
        """Counts parameter lo up to hi."""
        var = self._places.variable(loop.var)
        self._loop(loop, f"let {var} = lo", f"{var} < hi", moved=True)

    def block(self, block: Block) -> None:
        for statement in block:
            self._statement(statement, last=statement is block[-1])

    def _statement(self, statement: Statement, *, last: bool) -> None:
        match statement:
            case Assign():
                self._assign(statement)
            case Store():
                self._store(statement)
            case Loop(kind=LoopKind.SERIAL):
                var = self._places.variable(statement.var)
                self._loop(statement, f"let {var} = 0", f"{var} < {statement.extent}", moved=False)
            case If():
                self._condition(statement)
            case Let() if last:
                self._let(statement)
            case Let():
                with self._writer.block():
                    self._let(statement)
            case Allocate(body=body):
                self.block(body)
            case _:
                raise unsupported(statement, "the JavaScript printer")

    def _assign(self, statement: Assign) -> None:
        register, value = statement.register, statement.value
        if any(isinstance(part, Shuffle) and _reads(part, register) for part in parts_of(value)):
            raise unsupported(statement, "the JavaScript printer, lane by lane")
        for lane in range(lanes_of(value)):
            name = self._places.register(register, lane)
            self._writer.line(f"{name} = {self.values.text(value, lane)};")

    def _store(self, store: Store) -> None:
        self.values.used.add(VIEWS.get(store.buffer.dtype, ""))
        for lane in range(lanes_of(store.value)):
            place = self._places.entry(store.buffer, store.index, lane)
            self._writer.line(f"{place} = {self.values.text(store.value, lane)};")

    def _loop(self, loop: Loop, first: str, test: str, *, moved: bool) -> None:
        """Pointers start before the loop: at its variable's first value if `moved`, else at 0."""
        var = self._places.variable(loop.var)
        starts = [first]
        for pointer in loop.pointers:
            name, start = self._places.enter(pointer)
            starts.append(f"{name} = {start}{' + lo' if moved else ''}")
            if moved and pointer.stride != 1:
                starts[-1] += f" * {pointer.stride}"
        steps = [f"{var}++", *(f"{self._places.pointer(p)} += {p.stride}" for p in loop.pointers)]
        with self._writer.block(f"for ({', '.join(starts)}; {test}; {', '.join(steps)})"):
            self.block(loop.body)
        self._leave(loop.pointers)

    def _let(self, let: Let) -> None:
        """A Let holds for the rest of its block."""
        var = self._places.variable(let.var)
        self._writer.line(f"const {var} = {self.values.text(let.value)};")
        for pointer in let.pointers:
            name, start = self._places.enter(pointer)
            self._writer.line(f"const {name} = {start} + {var} * {pointer.stride};")
        self.block(let.body)
        self._leave(let.pointers)

    def _leave(self, pointers: Iterable[Pointer]) -> None:
        for pointer in pointers:
            self._places.leave(pointer)

    def _condition(self, statement: If) -> None:
        tests = [f"{self._places.index(bound.index)} < {bound.limit}" for bound in statement.bounds]
        with self._writer.block(f"if ({' && '.join(tests)})"):
            self.block(statement.body)
        if statement.otherwise:
            with self._writer.block("else"):
                self.block(statement.otherwise)


def parts_of(expression: Expression) -> Iterator[Expression]:
    yield expression
    for operand in operands(expression):
        yield from parts_of(operand)


def _reads(expression: Expression, register: Register) -> bool:
    return any(
        isinstance(part, RegisterRead) and part.register == register
        for part in parts_of(expression)
    )
