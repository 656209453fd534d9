"""Loops that a schedule vectorises, one lane at a time: to see what vectors are worth."""

from msgspec.structs import replace

from services.tuner.ir.kinds import LoopKind
from services.tuner.ir.nodes import Allocate, Block, If, Let, Loop, Program, Statement


def scalar(program: Program) -> Program:
    """Vector loops become unrolled ones."""
    return replace(program, body=replace(program.body, body=_block(program.body.body)))


def _block(block: Block) -> Block:
    return tuple(_statement(statement) for statement in block)


def _statement(statement: Statement) -> Statement:
    match statement:
        case Loop(kind=kind, body=body):
            plain = LoopKind.UNROLLED if kind is LoopKind.VECTOR else kind
            return replace(statement, kind=plain, body=_block(body))
        case Let(body=body) | Allocate(body=body):
            return replace(statement, body=_block(body))
        case If(body=body, otherwise=otherwise):
            return replace(statement, body=_block(body), otherwise=_block(otherwise))
    return statement
