"""A program of several loop nests becomes a program for each, to be run one after another."""

from msgspec.structs import replace

from services.tuner.ir.kinds import Scope
from services.tuner.ir.nodes import Allocate, Block, Buffer, Program, Statement
from services.tuner.ir.unsupported import unsupported


def staged(program: Program) -> tuple[Program, ...]:
    """Each has the buffers between the nests among its parameters."""
    shared: list[Buffer] = []
    nests = _nests(program.body.body, shared)
    parameters = (*program.parameters, *shared)
    return tuple(
        Program(parameters=parameters, body=replace(program.body, body=(nest,))) for nest in nests
    )


def _nests(block: Block, shared: list[Buffer]) -> list[Statement]:
    found: list[Statement] = []
    for statement in block:
        match statement:
            case Allocate(buffer=buffer, body=body) if buffer.scope is Scope.GLOBAL:
                shared.append(buffer)
                found += _nests(body, shared)
            case Allocate():
                raise unsupported(statement, "the split into stages")
            case _:
                found.append(statement)
    return found
