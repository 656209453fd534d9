"""Loop unswitching: conditions that a loop does not change move out of it.

    for k < 4:                          if j < 2:
      if j < 2 and k < 3:                 for k < 4:
        y[4*j + k] = 1            →         if k < 3: y[4*j + k] = 1
      else: y[4*j + k] = 2                  else: y[4*j + k] = 2
                                        else: for k < 4: y[4*j + k] = 2

What moved out is evaluated once a loop, which is cheap enough: `loop_partition` splits no loop for
a condition that stands around whole loops.
"""

from msgspec.structs import replace

from services.tuner.ir.affine import Bound
from services.tuner.ir.nodes import (
    Allocate,
    Block,
    If,
    Let,
    Loop,
    LoopKind,
    Program,
    Statement,
)
from services.tuner.ir.rewrite import statements


def unswitch_loops(program: Program) -> Program:
    body = program.body.body
    if not any(isinstance(statement, If) for statement in statements(body)):
        return program
    return replace(program, body=replace(program.body, body=_block(body)))


def _block(block: Block) -> Block:
    return tuple(_statement(statement) for statement in block)


def _statement(statement: Statement) -> Statement:
    match statement:
        case Loop(body=body):
            return _unswitched(replace(statement, body=_block(body)))
        case Let(body=body) | Allocate(body=body):
            return replace(statement, body=_block(body))
        case If(body=body, otherwise=otherwise):
            return If(bounds=statement.bounds, body=_block(body), otherwise=_block(otherwise))
    return statement


def _unswitched(loop: Loop) -> Statement:
    """The loop inside the bounds that do not name its variable."""
    match loop.body:
        case (If() as condition,) if loop.kind is LoopKind.SERIAL:
            shared = tuple(b for b in condition.bounds if not b.index.coefficient(loop.var))
            if shared:
                return _split(loop, condition, shared)
    return loop


def _split(loop: Loop, condition: If, shared: tuple[Bound, ...]) -> If:
    own = tuple(bound for bound in condition.bounds if bound not in shared)
    inside = (replace(condition, bounds=own),) if own else condition.body
    otherwise = condition.otherwise
    return If(
        bounds=shared,
        body=(_unswitched(replace(loop, body=inside)),),
        otherwise=(replace(loop, body=otherwise),) if otherwise else (),
    )
