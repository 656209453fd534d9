"""The function that is being written: its instructions so far and its locals."""

from services.tuner.codegen.wasm.assembler import Function
from services.tuner.codegen.wasm.instructions import Instruction, i32_const, local, plain
from services.tuner.codegen.wasm.opcodes import ValueType


class Frame:
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
