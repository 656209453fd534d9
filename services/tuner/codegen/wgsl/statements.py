"""Statements as WGSL text, inside an entry point."""

from services.tuner.codegen.loop_ends import is_read, loop_ends, within
from services.tuner.codegen.text import Writer
from services.tuner.codegen.wgsl.expressions import LANE, Expressions
from services.tuner.codegen.wgsl.memory import Indices, Memory, type_text
from services.tuner.ir.nodes import (
    Allocate,
    Assign,
    Barrier,
    Block,
    If,
    Let,
    Loop,
    LoopKind,
    Register,
    Scope,
    Statement,
    Store,
    lanes_of,
    unsupported,
)
from services.tuner.passes.if_conversion import too_many_branches

THREAD = "invocation"


class Statements:
    """Writes the statements of one entry point. `variables` are registers that are no `let`."""

    def __init__(
        self, writer: Writer, indices: Indices, memory: Memory, variables: frozenset[Register]
    ) -> None:
        self._writer = writer
        self._indices = indices
        self._memory = memory
        self._variables = variables
        self.values = Expressions(indices, memory)
        self._no_short_circuit = False
        self._loaded: set[str] = set()

    def block(self, block: Block) -> None:
        for statement in block:
            self._statement(statement, last=statement is block[-1])

    def _statement(self, statement: Statement, *, last: bool) -> None:
        match statement:
            case Assign(register=register, value=value):
                head = "" if register in self._variables else "let "
                name = self.values.register(register)
                self._writer.line(f"{head}{name} = {self.values.text(value)};")
            case Store():
                self._store(statement)
            case Loop():
                self._loop(statement)
            case If():
                self._condition(statement)
            case Barrier(storage=storage):
                if storage:
                    self._writer.line("storageBarrier();")
                self._writer.line("workgroupBarrier();")
            case Let() | Allocate() if not last:
                with self._writer.block():
                    self._named(statement)
            case Let() | Allocate():
                self._named(statement)
            case _:
                raise unsupported(statement, "the WGSL printer")

    def _store(self, store: Store) -> None:
        value = self.values.text(store.value)
        lanes = lanes_of(store.value)
        if lanes == 1 or self._memory.wide(store.buffer):
            self._writer.line(f"{self._memory.store(store.buffer, store.index, value)};")
            return
        with self._writer.block():
            self._writer.line(f"let four = {value};")
            parts = [f"four.{lane}" for lane in LANE[:lanes]]
            for text in self._memory.stores(store.buffer, store.index, parts):
                self._writer.line(f"{text};")

    def _named(self, statement: Let | Allocate) -> None:
        """A Let or Allocate, which holds for the rest of its block."""
        match statement:
            case Let(var=var, value=value, low=low, high=high):
                text = self.values.unsigned(value)
                if is_read(value):
                    self._loaded.add(var)
                self._indices.ranges[var] = (low, high)
                self._writer.line(f"let {self._indices.variable(var)} = {text};")
            case Allocate(buffer=buffer) if buffer.scope is Scope.LOCAL:
                name = self._indices.names.of("buffer", buffer.name)
                self._writer.line(f"var {name}: {self._memory.array_type(buffer, buffer.size)};")
            case Allocate(buffer=buffer) if buffer.scope is not Scope.WORKGROUP:
                raise unsupported(statement, f"the WGSL printer for {buffer.scope} buffers")
        self.block(statement.body)

    def _loop(self, loop: Loop) -> None:
        self._indices.ranges[loop.var] = (0, loop.extent - 1)
        name = self._indices.variable(loop.var)
        match loop.kind:
            case LoopKind.THREAD_INDEX:
                self._writer.line(f"let {name} = {THREAD};")
                for register in sorted(self._variables, key=lambda each: each.name):
                    kind = type_text(register.dtype, register.lanes)
                    self._writer.line(f"var {self.values.register(register)}: {kind};")
                self.block(loop.body)
            case LoopKind.SERIAL:
                ends = loop_ends(loop, self._loaded)
                tests = [f"{name} < {loop.extent}u", *map(self._indices.bound, ends)]
                head = f"for (var {name} = 0u; {' && '.join(tests)}; {name}++)"
                with self._writer.block(head):
                    outside, self._no_short_circuit = (
                        self._no_short_circuit,
                        self._no_short_circuit or too_many_branches(loop),
                    )
                    self.block(within(loop.body) if ends else loop.body)
                    self._no_short_circuit = outside
            case _:
                raise unsupported(loop, f"the WGSL printer for {loop.kind} loops")

    def _condition(self, statement: If) -> None:
        tests = [self._indices.bound(bound) for bound in statement.bounds]
        with self._writer.block(f"if ({self._all(tests)})"):
            self.block(statement.body)
        if statement.otherwise:
            with self._writer.block("else"):
                self.block(statement.otherwise)

    def _all(self, tests: list[str]) -> str:
        """Joins bounds by `&&`, or by `&` in a loop with too many branches, as each `&&` is one
        (`passes/if_conversion.py`)."""
        if self._no_short_circuit and len(tests) > 1:
            return " & ".join(f"({test})" for test in tests)
        return " && ".join(tests)
