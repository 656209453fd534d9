"""Writes docs/operators.md from the table of operators: `make generate` runs it."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from kernelzoo.domain.operators import EPILOGUES, OPERATORS, EpilogueKind, Operator
from kernelzoo.domain.operators.decoding import (
    AttentionShape,
    advance,
    argmax,
    decode_attention,
    gated_product,
    normed_heads,
    normed_product,
    normed_sum,
)
from kernelzoo.domain.operators.examples import example_extents
from kernelzoo.domain.operators.expressions import Program
from kernelzoo.domain.operators.prefill import (
    advance_block,
    block_attention,
    block_tokens,
    normed_rows,
)
from kernelzoo.domain.workload import Workload

PAGE = Path(__file__).parents[1] / "docs" / "operators.md"

HEAD = """\
# Operators

Generated from `kernelzoo/domain/operators` by `make generate`.

A workload is `operator[+epilogue…]:dtype:extents[:constant=b]`, for example
`matmul+bias+gelu:f32:m384k768n3072:constant=b`. Extents stand in the operator's order, each a
name and a number. Every tensor is dense and row-major in the order of axes given here, so the
last axis is contiguous: images are NHWC, filters are rows, columns, input channels, output
channels. `dtype` is that of all tensors that name no other, f32, or on webgpu also f16; sums are
always computed in f32. `kernel.inputs` has the inputs by these names.

Below each table stand the definitions that kernels are compiled from and reported outputs are
checked with: the tensors of each operator in the order in which they are computed, the last of them
the output. Places along axes are called i, j, k, y, x and so on; extents have their names in keys.

"""

EPILOGUE_HEAD = """
## Epilogues

Done to every entry before it is stored, in the order of the key; at most four. Contractions and
convolutions take them, `mask` contractions alone. What an epilogue reads is one more input, after
the operator's own and by the epilogue's name; `m` and `n` are the output's last axes.

| epilogue | input | entry becomes |
|---|---|---|
"""

EPILOGUE_TEXT = {
    EpilogueKind.COLUMN: ("[n]", "c + {name}[n]"),
    EpilogueKind.ENTRY: ("the output's shape", "c + {name} at the same place"),
    EpilogueKind.MATRIX: ("[m, n]", "c + {name}[m, n], in every matrix of a batch"),
    EpilogueKind.FACTOR: ("[n]", "c · {name}[n]"),
    EpilogueKind.SCALAR: ("[1]", "c · {name}[0]"),
}

CONSTANT = """
## Constant weights

`:constant=b` says that input `b` stays the same from call to call, as weights do: the zoo may then
serve a kernel that wants them packed, and the SDK packs them once, when they are written.
Contractions and `conv2d` take it.
"""

_INPUT = re.compile(r"\ba\b")


DECODING_HEAD = """
## Decoding

What a language model does for a token, with weights as `matmul_q4` has them, are programs of
`kernelzoo/domain/operators/decoding.py`: `Workload.of_program(name, program)` makes a workload of
one. Inputs stand in this order; what stands before `:=` is a state, which a call also writes, in
place. `position[0]` is the number of tokens in the cache before this one. Keys are kept rotated,
four entries of a token side by side, so that threads of neighbouring tokens read neighbours.
With `form=Form(width=8, block=64, zeros=True)`, `normed_product` and `gated_product` read weights
as `matmul_q8z` does with such a block, zero points behind the scales. With `scale`, `cap` and
`window` of an `AttentionShape` scores are multiplied by another number, go through
cap · tanh(score / cap), and are of the last tokens alone. `decode_attention` and `block_attention`
with `DType.F16` keep keys and values as f16, and have kernels for WebGPU alone.
"""
DECODING = (
    (
        "normed_product(1, 64, 96, epsilon=1e-6, bias=True)",
        normed_product(1, 64, 96, epsilon=1e-6, bias=True),
    ),
    ("gated_product(1, 64, 96, epsilon=1e-6)", gated_product(1, 64, 96, epsilon=1e-6)),
    (
        "decode_attention(AttentionShape(heads=4, kv_heads=2, head_dim=16, length=32))",
        decode_attention(AttentionShape(heads=4, kv_heads=2, head_dim=16, length=32)),
    ),
    ("argmax(1000)", argmax(1000)),
    ("advance(32)", advance(32)),
    ("normed_heads(4, 2, 16, 1e-6)", normed_heads(4, 2, 16, 1e-6)),
    ("normed_sum(1, 64, 1e-6)", normed_sum(1, 64, 1e-6)),
)
PREFILL_HEAD = """
### A block of a prompt

The programs of `kernelzoo/domain/operators/prefill.py` take many tokens of a prompt at once.
Products are `matmul_q4` and `swiglu_q4` of as many rows, behind `normed_rows`.
"""
PREFILL = (
    ("block_tokens(32, 8)", block_tokens(32, 8)),
    ("normed_rows(8, 64, 1e-6)", normed_rows(8, 64, 1e-6)),
    (
        "block_attention(AttentionShape(heads=4, kv_heads=2, head_dim=16, length=32), 8)",
        block_attention(AttentionShape(heads=4, kv_heads=2, head_dim=16, length=32), 8),
    ),
    ("advance_block(32, 8)", advance_block(32, 8)),
)


def page() -> str:
    tables = HEAD + "\n".join(_sections()) + EPILOGUE_HEAD + "\n".join(_epilogues())
    decoding = DECODING_HEAD + "\n".join(_programs(DECODING))
    return tables + "\n" + CONSTANT + decoding + PREFILL_HEAD + "\n".join(_programs(PREFILL))


def _sections() -> Iterator[str]:
    for family in dict.fromkeys(operator.family for operator in OPERATORS.values()):
        yield f"## {family.value.capitalize()}\n"
        yield "| operator | key | inputs | output | an entry of the output |\n|---|---|---|---|---|"
        for operator in OPERATORS.values():
            if operator.family is family:
                yield _row(operator)
        yield ""
        yield "```"
        yield from (_definition(each) for each in OPERATORS.values() if each.family is family)
        yield "```"
        yield ""


def _row(operator: Operator) -> str:
    key = Workload.of(operator.name, example_extents(operator)).key
    dtypes = dict(operator.dtypes)
    inputs = "<br>".join(
        f"`{name}[{', '.join(axes)}]`{f' {dtypes[name]}' if name in dtypes else ''}"
        for name, axes in operator.inputs
    )
    name, axes = operator.output
    output = f"`{name}[{', '.join(axes)}]`"
    return f"| `{operator.name}` | `{key}` | {inputs} | {output} | {operator.sentence} |"


def _definition(operator: Operator) -> str:
    return f"{operator.name}\n" + "\n".join(f"  {stage}" for stage in operator.stages)


def _epilogues() -> Iterator[str]:
    for name, kind in EPILOGUES.items():
        if kind is EpilogueKind.UNARY:
            becomes = _INPUT.sub("c", OPERATORS[name].sentence)
            yield f"| `{name}` | none | {becomes} |"
        else:
            shape, becomes = EPILOGUE_TEXT[kind]
            yield f"| `{name}` | `{name}` {shape} | {becomes.format(name=name)} |"


def _programs(listed: Sequence[tuple[str, Program]]) -> Iterator[str]:
    for call, program in listed:
        yield f"\n```\n{call}\n"
        yield "\n".join(f"  {line}" for line in str(program).splitlines())
        yield "```"
    yield ""


if __name__ == "__main__":
    PAGE.write_text(page())
