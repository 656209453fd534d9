"""Kernels of fewer rows for runs of short extents, in a plan that serves a range.

A kernel for 128 rows that is told to leave out 120 has tiles and blocks that were chosen for 128. A
tensor whose open axis is its outermost lies in memory as that of fewer rows does, at its beginning.
So a workload of 8 rows computes what a run of up to 8 reads, from the same tensors:

    matmul:f32:m128k384n1536:constant=b:spare=128     extents from 9 to 128
    matmul:f32:m8k384n1536:constant=b:spare=8         extents up to 8

Each is a workload like any other: it is measured at its own largest extent, voted on, and shared
with all models whose buckets end there, which is why they end at powers of two.
"""

from collections.abc import Iterator
from dataclasses import replace
from math import prod

from kernelzoo.domain.dtype import DType
from kernelzoo.domain.operators import Family
from kernelzoo.domain.operators.attention import attention, attention_of
from kernelzoo.domain.plan import PlanAxis, PlanBucket, PortDType
from kernelzoo.domain.workload import PROGRAM, SPARE, Workload
from kernelzoo.errors import InvalidInput
from services.tuner.graph.graph import Graph, GraphPort, Value

FEWEST_ROWS = 8
"""Kernels have tiles of up to six rows: fewer rows need no kernel of their own beside that of 8."""
MOST_BUCKETS = 4
"""Each has kernels of its own, which a page fetches and compiles before its first run."""
LEAST_FLOPS = 1 << 16
"""A call of fewer takes as long as calling it."""
PRODUCTS = (Family.CONTRACTION, Family.CONVOLUTION)
"""Other named workloads pass by their tensors once, and end where these do."""


def bucket_ends(axis: PlanAxis) -> tuple[int, ...]:
    """The largest extents of buckets below that of the axis, the shortest first: powers of two, of
    many every second one. A range of a few pictures begins with one of them."""
    fewest = FEWEST_ROWS if axis.most > FEWEST_ROWS else 1
    powers = [1 << place for place in range(axis.most.bit_length())]
    ends = [each for each in powers if max(axis.least, fewest) <= each < axis.most]
    return tuple(ends if len(ends) <= MOST_BUCKETS else ends[::2])


def with_buckets(graph: Graph) -> Graph:
    """The graph of a range with the buckets in which any of its calls has another kernel. What is
    spare of each, an input of its own says. `bucket_workloads` has the kernels."""
    inputs, values, axes = list(graph.inputs), dict(graph.values), []
    for axis in graph.axes:
        buckets = []
        for most in bucket_ends(axis):
            if not bucket_workloads(graph, axis, most):
                continue
            value = Value(f"{graph.inputs[axis.input].value} {most}", DType.I32, (1,))
            values[value.name] = value
            buckets.append(PlanBucket(most=most, input=len(inputs), kernels=()))
            name = f"{SPARE} {axis.name} of {most}"
            inputs.append(GraphPort(name, PortDType.INT32, value.name))
        axes.append(replace(axis, buckets=tuple(buckets)))
    return replace(graph, inputs=tuple(inputs), values=values, axes=tuple(axes))


def bucket_workloads(graph: Graph, axis: PlanAxis, most: int) -> dict[str, Workload]:
    """Maps keys of workloads of a graph to what runs in their place for extents up to `most`."""
    found: dict[str, Workload] = {}
    told = graph.inputs[axis.input].value
    for node in graph.nodes:
        # Of what is spare a workload is told last.
        is_told = node.inputs[-1:] == (told,)
        if isinstance(node.op, Workload) and is_told and node.op.key not in found:
            shorter = _shorter(node.op, axis, most)
            if shorter is not None:
                found[node.op.key] = shorter
    return found


def _shorter(workload: Workload, axis: PlanAxis, most: int) -> Workload | None:
    """The workload for so many of the open axis; None for one that is told of nothing spare, that
    takes no time, or of which a tensor would lie otherwise."""
    told = workload.program.spare
    if told is None or workload.flops < LEAST_FLOPS:
        return None
    # Pages tell what is spare by the last input.
    if told.tensor != workload.tensors[-2].name:
        return None
    return next(
        (each for each in _candidates(workload, axis, most) if _begins(each, workload)), None
    )


def _candidates(workload: Workload, axis: PlanAxis, most: int) -> Iterator[Workload]:
    if workload.operator is PROGRAM:
        given = attention_of(workload.program)
        if given is not None:
            less = axis.most - most
            rows = given.m - less if given.spare_rows else given.m
            keys = given.n - less if given.spare_keys and not given.spare_apart else given.n
            # One row has no template: it is the first of many.
            if rows > 1 and keys > 0:
                yield Workload.of_program("attention", attention(replace(given, m=rows, n=keys)))
    elif workload.operator.family in PRODUCTS and workload.spare == axis.most:
        for place, extent in enumerate(workload.extents):
            if extent % axis.most == 0:
                extents = list(workload.extents)
                extents[place] = extent // axis.most * most
                try:
                    name = "+".join((workload.operator.name, *workload.epilogue))
                    yield Workload.of(name, tuple(extents), workload.dtype, workload.constant, most)
                except InvalidInput:
                    continue


def _begins(shorter: Workload, workload: Workload) -> bool:
    """Returns whether each tensor of the one is the beginning of the other's: the same, or shorter
    along its outermost axis alone. The output has to be shorter."""
    pairs = list(zip(shorter.tensors, workload.tensors, strict=False))
    same = len(shorter.tensors) == len(workload.tensors)
    return (
        same
        and shorter.output.shape != workload.output.shape
        and all(
            part.dtype is whole.dtype and _is_first(part.shape, whole.shape)
            for part, whole in pairs
        )
    )


def _is_first(part: tuple[int, ...], whole: tuple[int, ...]) -> bool:
    if len(part) != len(whole):
        return False
    place = next((i for i, each in enumerate(part) if each != whole[i]), None)
    if place is None:
        return True
    return prod(whole[:place]) == 1 and part[place + 1 :] == whole[place + 1 :]
