"""The function that is being written: its instructions so far and its locals.

A function as text, one instruction a line, for golden files and for people.

What a function body must keep: the operand stack of every instruction, checked by type.

A small part of the validation algorithm (core specification, appendix "Validation Algorithm"):
our blocks take and leave nothing, so each starts and ends with an empty stack.
"""

from dataclasses import dataclass

from services.tuner.codegen.wasm.instructions import (
    Immediate,
    Instruction,
    ValueType,
    i32_const,
    local,
    plain,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Function:
    """`main`: its i32 parameters, the types of its other locals, its body without the last end."""

    parameters: tuple[str, ...]
    locals: tuple[ValueType, ...]
    body: tuple[Instruction, ...]


class FunctionBuilder:
    """Locals are numbered after the parameters, in the order in which they are asked for."""

    def __init__(self, parameters: tuple[str, ...]) -> None:
        self._parameters = parameters
        self._types: list[ValueType] = []
        self._code: list[Instruction] = []
        self._named: dict[tuple[str, ValueType], int] = {}

    def emit(self, instruction: Instruction) -> None:
        self._code.append(instruction)

    @property
    def position(self) -> int:
        """Of the next instruction."""
        return len(self._code)

    def replace(self, position: int, instruction: Instruction) -> None:
        self._code[position] = instruction

    def parameter(self, name: str) -> int:
        return self._parameters.index(name)

    def fresh(self, kind: ValueType) -> int:
        self._types.append(kind)
        return len(self._parameters) + len(self._types) - 1

    def named(self, name: str, kind: ValueType) -> int:
        """The local of that name and type; made when first asked for."""
        index = self._named.get((name, kind))
        if index is None:
            index = self._named[name, kind] = self.fresh(kind)
        return index

    def get(self, index: int) -> None:
        """A value that was set a moment ago is kept on the stack: set and get become tee."""
        if self._code and self._code[-1] is local("local.set", index):
            self._code[-1] = local("local.tee", index)
        else:
            self._code.append(local("local.get", index))

    def set(self, index: int) -> None:
        self._code.append(local("local.set", index))

    def add_constant(self, value: int) -> None:
        """Adds to the i32 on top of the stack."""
        if value:
            self._code += (i32_const(value), plain("i32.add"))

    def add_product(self, index: int, factor: int) -> None:
        """Adds local·factor to the i32 on top of the stack."""
        self._code += (local("local.get", index), i32_const(factor), plain("i32.mul"))
        self._code.append(plain("i32.add"))

    def function(self) -> Function:
        return Function(
            parameters=self._parameters, locals=tuple(self._types), body=tuple(self._code)
        )


_OPENS = {"block", "loop", "if", "else"}
_CLOSES = {"end", "else"}


def disassembly(function: Function) -> str:
    lines = [f"(param {' '.join(function.parameters)})"]
    depth = 1
    for instruction in function.body:
        name = instruction.opcode.name
        depth -= name in _CLOSES
        lines.append("  " * depth + instruction.text)
        depth += name in _OPENS
    return "\n".join(lines) + "\n"


_BLOCKS = {"block", "loop", "if"}


def type_faults(function: Function) -> tuple[str, ...]:
    """One sentence for each instruction that does not fit; empty for a well-typed body."""
    types = (ValueType.I32,) * len(function.parameters) + function.locals
    stack: list[ValueType] = []
    found: list[str] = []
    depth = 0
    for position, instruction in enumerate(function.body):
        at = f"instruction {position} ({instruction.text})"
        pops, pushes = _effect(instruction, types)
        if tuple(stack[len(stack) - len(pops) :]) != pops:
            found.append(f"{at} needs {', '.join(pops)} on a stack of {', '.join(stack)}")
            return tuple(found)
        del stack[len(stack) - len(pops) :]
        stack.extend(pushes)
        name = instruction.opcode.name
        depth += (name in _BLOCKS) - (name == "end")
        if (name in _BLOCKS or name in ("else", "end")) and stack:
            found.append(f"{at} stands on a stack of {', '.join(stack)}; it must be empty")
        if instruction.opcode.immediate is Immediate.LABEL and instruction.operands[0] >= depth:
            found.append(f"{at} branches out of {depth} blocks")
    if stack or depth:
        found.append(f"the body ends {depth} blocks deep with {len(stack)} values left")
    return tuple(found)


def _effect(
    instruction: Instruction, types: tuple[ValueType, ...]
) -> tuple[tuple[ValueType, ...], tuple[ValueType, ...]]:
    opcode = instruction.opcode
    if opcode.immediate is not Immediate.LOCAL:
        return opcode.pops, opcode.pushes
    kind = (types[int(instruction.operands[0])],)
    match opcode.name:
        case "local.get":
            return (), kind
        case "local.set":
            return kind, ()
    return kind, kind
