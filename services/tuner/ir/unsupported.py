"""The one sentence for a node that a step of the compiler does not lower."""

from kernelzoo.errors import UnsupportedProgram


def unsupported(node: object, step: str = "this step of the compiler") -> UnsupportedProgram:
    return UnsupportedProgram(
        f"{type(node).__name__} is not lowered by {step}; restate the program without it"
    )
