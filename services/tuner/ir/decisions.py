"""Two-way decisions that follow one another inside of a loop: what drivers may choke on.

n of them in a row make 2^n paths through the loop (NPATH, Nejmeh 1988). SwiftShader, Chromium's
WebGPU on machines without a GPU, walks every one of them: `Function::ExistsPath` of its
SpirvShaderControlFlow.cpp, by which it finds the back edge of a loop, queues a block once for each
way to it. A 3x3 convolution whose loop gathers eight pixels, each under `a && b && c && d` with
zeros else, has 32 in a row: 8 KB of text that did not compile in minutes and took 10 GB.
Chromium 156: 16 in a row cost 0.1 s, 20 cost 0.5 s, 24 cost 5 s. Outside of loops, and where one
arm is empty, paths meet again at once and cost nothing.
"""

from services.tuner.ir.kinds import LoopKind
from services.tuner.ir.nodes import Block, If, Loop, Program
from services.tuner.ir.rewrite import inner_blocks, statements

MOST_DECISIONS = 16
"""In one loop."""


def too_many(loop: Loop) -> bool:
    """Whether the paths through a loop are more than drivers are known to compile, where each bound
    of a condition is a decision of its own."""
    if loop.kind is not LoopKind.SERIAL:
        return False
    return decisions(loop.body) + _further_bounds(loop.body) > MOST_DECISIONS


def decisions(block: Block) -> int:
    """Conditions with two arms that one path meets, where bounds are evaluated together."""
    return sum(
        bool(one.otherwise) + max(map(decisions, inner_blocks(one)))
        if isinstance(one, If)
        else sum(map(decisions, inner_blocks(one)))
        for one in block
    )


def _further_bounds(block: Block) -> int:
    return sum(len(one.bounds) - 1 for one in statements(block) if isinstance(one, If))


def most_decisions(program: Program) -> int:
    """Of all loops of a program."""
    loops = (one for one in statements(program.body.body) if isinstance(one, Loop))
    serial = (loop for loop in loops if loop.kind is LoopKind.SERIAL)
    return max((decisions(loop.body) for loop in serial), default=0)
