"""A WebAssembly function: its builder, its text, and the check of its types."""

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
class WasmFunction:
    """`parameters` are all i32. `locals` are the types of the other locals, `body` the instructions
    without the last `end`."""

    parameters: tuple[str, ...]
    locals: tuple[ValueType, ...]
    body: tuple[Instruction, ...]


class FunctionBuilder:
    """The function under construction. Locals are numbered after the parameters."""

    def __init__(self, parameters: tuple[str, ...]) -> None:
        self._parameters = parameters
        self._types: list[ValueType] = []
        self._code: list[Instruction] = []
        self._named: dict[tuple[str, ValueType], int] = {}

    def emit(self, instruction: Instruction) -> None:
        self._code.append(instruction)

    @property
    def position(self) -> int:
        """The number of the next instruction."""
        return len(self._code)

    def replace(self, position: int, instruction: Instruction) -> None:
        self._code[position] = instruction

    def parameter(self, name: str) -> int:
        return self._parameters.index(name)

    def fresh(self, kind: ValueType) -> int:
        self._types.append(kind)
        return len(self._parameters) + len(self._types) - 1

    def named(self, name: str, kind: ValueType) -> int:
        """The local of that name and type, made when it is first used."""
        index = self._named.get((name, kind))
        if index is None:
            index = self._named[name, kind] = self.fresh(kind)
        return index

    def get(self, index: int) -> None:
        """Pushes a local. `local.set` and `local.get` of one local in a row become `local.tee`."""
        if self._code and self._code[-1] is local("local.set", index):
            self._code[-1] = local("local.tee", index)
        else:
            self._code.append(local("local.get", index))

    def set(self, index: int) -> None:
        self._code.append(local("local.set", index))

    def add_constant(self, value: int) -> None:
        """Adds a constant to the i32 on top of the stack."""
        if value:
            self._code += (i32_const(value), plain("i32.add"))

    def add_product(self, index: int, factor: int) -> None:
        """Adds local·factor to the i32 on top of the stack."""
        self._code += (local("local.get", index), i32_const(factor), plain("i32.mul"))
        self._code.append(plain("i32.add"))

    def finish(self) -> WasmFunction:
        return WasmFunction(
            parameters=self._parameters, locals=tuple(self._types), body=tuple(self._code)
        )


_OPENS = {"block", "loop", "if", "else"}
_CLOSES = {"end", "else"}


def disassembly(function: WasmFunction) -> str:
    """One instruction a line, indented by blocks: for golden files and for people."""
    lines = [f"(param {' '.join(function.parameters)})"]
    depth = 1
    for instruction in function.body:
        name = instruction.opcode.name
        depth -= name in _CLOSES
        lines.append("  " * depth + instruction.text)
        depth += name in _OPENS
    return "\n".join(lines) + "\n"


_BLOCKS = {"block", "loop", "if"}


def type_faults(function: WasmFunction) -> tuple[str, ...]:
    """A sentence for each instruction whose operands are not on the stack; empty for a valid body.

    This is a small part of the validation algorithm (core specification, appendix "Validation
    Algorithm"): blocks of kernels take and leave nothing, so each starts and ends with an empty
    stack. Tests check every kernel with it, which names the instruction where an engine would not.
    """
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
