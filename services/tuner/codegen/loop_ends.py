"""Loops that end where a value that was read says so, as one over a cache that is half full.

let here = position[0]
for t < 1024:                             for t < 1024, while t - here < 1:
  if t - here < 1: y += …           →       y += …
"""

from collections.abc import Set as AbstractSet

from services.tuner.ir.affine import Bound
from services.tuner.ir.nodes import Block, Expression, If, Load, Loop
from services.tuner.ir.rewrite import leaves


def is_read(value: Expression) -> bool:
    """Returns whether memory decides a value."""
    return any(isinstance(leaf, Load) for leaf in leaves(value))


def loop_ends(loop: Loop, variables: AbstractSet[str]) -> tuple[Bound, ...]:
    """The bounds around all that a loop does, if they fail for good once they fail and one of the
    `variables`, whose values were read, decides one."""
    match loop.body:
        case (If(bounds=bounds, otherwise=()),) if any(
            var in variables for bound in bounds for var, _ in bound.index.terms
        ):
            rises = all(bound.index.coefficient(loop.var) > 0 for bound in bounds)
            return bounds if rises else ()
    return ()


def within(block: Block) -> Block:
    """Returns what the only statement of a block, an If, does where its bounds hold."""
    return tuple(inner for one in block if isinstance(one, If) for inner in one.body)
