"""Functions that reduce a value over neighbouring threads by operations of their subgroups.

A subgroup has any power of two of threads, which only runs tell: exchanges inside of it reduce as
many threads as it has, or as are wanted, and workgroup memory adds up what several leave. This
takes threads of a subgroup to be neighbours in the workgroup, as all known implementations have
them in workgroups of one dimension.
"""

from services.tuner.codegen.wgsl.names import Names
from services.tuner.codegen.wgsl.values import Values
from services.tuner.codegen.wgsl.writer import Writer
from services.tuner.ir.kinds import BinaryOp
from services.tuner.ir.nodes import SubgroupReduce

ENABLE = "enable subgroups;\n"
_COMBINED = {
    BinaryOp.ADD: "{} + {}",
    BinaryOp.MUL: "{} * {}",
    BinaryOp.MIN: "min({}, {})",
    BinaryOp.MAX: "max({}, {})",
}


def reducing_function(
    writer: Writer, values: Values, names: Names, reduced: SubgroupReduce
) -> None:
    """The function `reducer` of a reduction; it has a barrier."""
    shared, count = names.of("buffer", reduced.shared.name), f"{reduced.threads}u"

    def with_part(other: str) -> str:
        return f"part = {_COMBINED[reduced.op].format('part', other)};"

    with writer.block(f"fn {values.reducer(reduced)}(value: f32, thread: u32, lanes: u32) -> f32"):
        writer.line("var part = value;")
        writer.line(f"let span = min(lanes, {count});")
        with writer.block("for (var step = 1u; step < span; step <<= 1u)"):
            writer.line(with_part("subgroupShuffleXor(part, step)"))
        writer.line(f"{shared}[thread] = part;")
        writer.line("workgroupBarrier();")
        writer.line(f"let start = thread - thread % {count};")
        writer.line(f"part = {shared}[start];")
        with writer.block(f"for (var next = span; next < {count}; next += span)"):
            writer.line(with_part(f"{shared}[start + next]"))
        writer.line("return part;")
