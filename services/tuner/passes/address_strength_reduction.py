"""Address strength reduction: loops step pointers instead of multiplying loop variables.

    for i < 8:                          for i < 8:
      for k < 4:                          pointer a[16*i] += 16
        y[i] = a[16*i + k + 2]    →       pointer y[i] += 1
                                          for k < 4:
                                            pointer a[16*i + k] += 1
                                            y[i] = a[16*i + k + 2]

Accesses keep their indices. The code generator finds the pointer of an index by its terms and adds
the rest, a constant, as the offset of the load or store instruction. The pointer of an inner loop
starts where the pointer of the loops around it stands, so no address is ever a product
(Aho, Lam, Sethi, Ullman, Compilers, section 9.1.7: induction variables and reduction in strength).
"""

from msgspec.structs import replace

from services.tuner.ir.affine import Terms
from services.tuner.ir.nodes import (
    Allocate,
    Assign,
    Barrier,
    Block,
    Buffer,
    Expression,
    If,
    Let,
    Load,
    Loop,
    Pointer,
    Program,
    Statement,
    Store,
    unsupported,
)
from services.tuner.ir.rewrite import operands

Accesses = dict[tuple[str, Terms], Buffer]
"""Each buffer and sum of terms that is accessed, in order of first use; constants do not matter."""


def reduce_address_strength(program: Program) -> Program:
    accesses: Accesses = {}
    (body,) = _block((program.body,), frozenset(), accesses)
    assert isinstance(body, Loop)
    return replace(program, body=body)


def _block(block: Block, outer: frozenset[str], accesses: Accesses) -> Block:
    return tuple(_statement(statement, outer, accesses) for statement in block)


def _statement(statement: Statement, outer: frozenset[str], accesses: Accesses) -> Statement:
    match statement:
        case Store(buffer=buffer, index=index, value=value):
            accesses[buffer.name, index.terms] = buffer
            _collect(value, accesses)
            return statement
        case Assign(value=value):
            _collect(value, accesses)
            return statement
        case Loop(var=var):
            inside: Accesses = {}
            body = _block(statement.body, outer | {var}, inside)
            accesses.update(inside)
            return replace(statement, body=body, pointers=_pointers(var, outer, inside))
        case Let(var=var, value=value):
            used: Accesses = {}
            body = _block(statement.body, outer | {var}, used)
            _collect(value, accesses)
            accesses.update(used)
            return replace(statement, body=body, pointers=_pointers(var, outer, used))
        case Allocate():
            return replace(statement, body=_block(statement.body, outer, accesses))
        case If():
            return replace(
                statement,
                body=_block(statement.body, outer, accesses),
                otherwise=_block(statement.otherwise, outer, accesses),
            )
        case Barrier():
            return statement
    raise unsupported(statement, "address strength reduction")


def _collect(expression: Expression, accesses: Accesses) -> None:
    if isinstance(expression, Load):
        accesses[expression.buffer.name, expression.index.terms] = expression.buffer
    else:
        for operand in operands(expression):
            _collect(operand, accesses)


def _pointers(var: str, outer: frozenset[str], accesses: Accesses) -> tuple[Pointer, ...]:
    """One pointer for each buffer and sum of terms in which `var` occurs.

    Terms of inner loops are left out here: those loops have pointers of their own.
    """
    found: dict[tuple[str, Terms], Pointer] = {}
    for (name, terms), buffer in accesses.items():
        stride = dict(terms).get(var)
        if stride is not None:
            parent = tuple(term for term in terms if term[0] in outer)
            here = tuple(term for term in terms if term[0] in outer or term[0] == var)
            found[name, here] = Pointer(buffer=buffer, terms=here, parent=parent, stride=stride)
    return tuple(found.values())
