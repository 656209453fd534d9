"""Finds what has to be known of a program before its text is written.

A buffer can be an array of vec4, which loads four elements at once, if all its accesses are of four
aligned elements. A register that is assigned once, and read in that block alone, can be a `let`.
"""

from dataclasses import dataclass

from services.tuner.ir.affine import Affine
from services.tuner.ir.nodes import (
    LANES,
    Assign,
    Block,
    Buffer,
    Expression,
    Let,
    Load,
    Program,
    Register,
    RegisterRead,
    Store,
    SubgroupReduce,
    lanes_of,
)
from services.tuner.ir.rewrite import inner_blocks, operands


@dataclass(frozen=True, slots=True, kw_only=True)
class Uses:
    """`scalar`: buffers with an access that is not of four aligned elements.

    `variables`: registers that are assigned more than once, or read outside of the block that
    assigns them. `reductions`: the subgroup reductions, each of which needs a function of its own.
    """

    scalar: frozenset[str]
    variables: frozenset[Register]
    reductions: tuple[SubgroupReduce, ...]


def uses_of(program: Program) -> Uses:
    scan = _Scan()
    scan.block((program.body,), ())
    return Uses(
        scalar=frozenset(scan.scalar),
        variables=frozenset(scan.variables),
        reductions=tuple(scan.reductions),
    )


class _Scan:
    def __init__(self) -> None:
        self.scalar: set[str] = set()
        self.variables: set[Register] = set()
        self.reductions: list[SubgroupReduce] = []
        self._assigned: dict[Register, tuple[int, ...]] = {}
        self._blocks = 0
        self._path: tuple[int, ...] = ()

    def block(self, block: Block, path: tuple[int, ...]) -> None:
        self._blocks += 1
        path = (*path, self._blocks)
        for statement in block:
            self._path = path
            match statement:
                case Assign(register=register, value=value):
                    self._value(value)
                    if register in self._assigned:
                        self.variables.add(register)
                    else:
                        self._assigned[register] = path
                    continue
                case Store(buffer=buffer, index=index, value=value):
                    self._value(value)
                    self._access(buffer, index, lanes_of(value))
                    continue
                case Let(value=value):
                    self._value(value)
            for inner in inner_blocks(statement):
                self.block(inner, path)

    def _value(self, value: Expression) -> None:
        waiting = [value]
        while waiting:
            node = waiting.pop()
            if type(node) is RegisterRead:
                if node.register not in self.variables:
                    self._read(node.register)
            elif type(node) is Load:
                self._access(node.buffer, node.index, node.lanes)
            else:
                if type(node) is SubgroupReduce:
                    self._reduction(node)
                waiting.extend(operands(node))

    def _reduction(self, node: SubgroupReduce) -> None:
        self.reductions.append(node)
        if lanes_of(node.value) == 1:
            self.scalar.add(node.shared.name)

    def _read(self, register: Register) -> None:
        made = self._assigned.get(register)
        if made is None or self._path[: len(made)] != made:
            self.variables.add(register)

    def _access(self, buffer: Buffer, index: Affine, lanes: int) -> None:
        if buffer.name in self.scalar:
            return
        aligned = not index.constant % LANES and all(not c % LANES for _, c in index.terms)
        if lanes != LANES or not aligned:
            self.scalar.add(buffer.name)
