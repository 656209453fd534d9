"""A function as text, one instruction a line, for golden files and for people."""

from services.tuner.codegen.wasm.assembler import Function

_OPENS = {"block", "loop", "if", "else"}
_CLOSES = {"end", "else"}


def disassembly(function: Function) -> str:
    lines = [f"(param {' '.join(function.parameters)})"]
    depth = 1
    for instruction in function.body:
        name = instruction.opcode.name
        depth -= name in _CLOSES
        lines.append("  " * depth + instruction.text)
        depth += name in _OPENS
    return "\n".join(lines) + "\n"
