"""FMA contraction: a product that is added to something becomes one multiply-add.

    c[i] = (c[i] + (a[i] * b[i]))
→
    c[i] = fma(a[i], b[i], c[i])

The multiply-add rounds once, so that results differ in the last bit: only schedules that ask for it
have it on WebAssembly (`PassOptions.fma`).
"""

from msgspec.structs import replace

from kernelzoo.domain.dtype import DType
from services.tuner.ir.nodes import Binary, BinaryOp, Expression, MultiplyAdd, Program, dtype_of
from services.tuner.ir.rewrite import map_values, with_operands


def contract_fma(program: Program) -> Program:
    return replace(
        program, body=replace(program.body, body=map_values(program.body.body, _contracted))
    )


def _contracted(expression: Expression) -> Expression:
    match with_operands(expression, _contracted):
        case (
            Binary(
                op=BinaryOp.ADD, left=addend, right=Binary(op=BinaryOp.MUL, left=left, right=right)
            )
            | Binary(
                op=BinaryOp.ADD, left=Binary(op=BinaryOp.MUL, left=left, right=right), right=addend
            )
        ) if dtype_of(left) is DType.F32:
            return MultiplyAdd(left=left, right=right, addend=addend)
        case rebuilt:
            return rebuilt
