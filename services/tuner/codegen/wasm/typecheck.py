"""What a function body must keep: the operand stack of every instruction, checked by type.

A small part of the validation algorithm (core specification, appendix "Validation Algorithm"):
our blocks take and leave nothing, so each starts and ends with an empty stack.
"""

from services.tuner.codegen.wasm.assembler import Function
from services.tuner.codegen.wasm.instructions import Instruction
from services.tuner.codegen.wasm.opcodes import Immediate, ValueType

_OPENS = {"block", "loop", "if"}


def faults(function: Function) -> tuple[str, ...]:
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
        depth += (name in _OPENS) - (name == "end")
        if (name in _OPENS or name in ("else", "end")) and stack:
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
