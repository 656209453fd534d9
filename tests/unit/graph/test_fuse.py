"""Each rule: what it makes of a small graph, and that the graph still computes the same."""

from collections.abc import Callable

import numpy as np
import pytest

from kernelzoo.domain.operators.expressions import (
    Call,
    Choice,
    Expression,
    Function,
    Program,
    largest,
    smallest,
)
from kernelzoo.domain.workload import Workload
from services.tuner.graph.attending import attention_joined
from services.tuner.graph.epilogues import epilogues_fused
from services.tuner.graph.graph import Graph, Node, View, faults
from services.tuner.graph.layout import channels_last, pooling_channels_last
from services.tuner.graph.merge import elementwise_merged, movements_merged
from services.tuner.graph.norms import norms_named
from services.tuner.graph.operands import products_joined, tied_weights_shared, transposes_folded
from tests.unit.graph.graphs import Built, computed, fed

Rule = Callable[[Graph], Graph]


def attention(tokens: int = 6, bias_of_keys: bool = True) -> Graph:
    """Two heads of 4 over tokens of 8, as exporters write it: with residual, norm and gelu."""
    g, m = Built(), tokens
    x = g.feed(1, m, 8)
    rows = g.view(x, m, 8)

    def heads(rows: str, bias: bool, *order: int) -> str:
        dense = g.workload(f"matmul:f32:m{m}k8n8:constant=b", rows, g.constant(8, 8))
        if bias:
            dense = g.entrywise(lambda a, b: a + b, g.view(dense, 1, m, 8), g.constant(8))
        return g.transpose(g.view(dense, 1, m, 2, 4), *order)

    q = heads(rows, True, 0, 2, 1, 3)
    k = heads(rows, bias_of_keys, 0, 2, 3, 1)
    v = heads(rows, True, 0, 2, 1, 3)
    scores = g.workload(f"batch_matmul:f32:b2m{m}k4n{m}", g.view(q, 2, m, 4), g.view(k, 2, 4, m))
    scaled = g.entrywise(lambda a: a / 2.0, g.view(scores, 1, 2, m, m))
    masked = g.entrywise(lambda a, b: a + b, scaled, g.constant(1, 1, 1, m))
    shares = g.workload(f"softmax:f32:m{2 * m}n{m}", g.view(masked, 2 * m, m))
    mixed = g.workload(
        f"batch_matmul:f32:b2m{m}k{m}n4", g.view(shares, 2, m, m), g.view(v, 2, m, 4)
    )
    joined = g.transpose(g.view(mixed, 1, 2, m, 4), 0, 2, 1, 3)
    out = g.workload(f"matmul:f32:m{m}k8n8:constant=b", g.view(joined, m, 8), g.constant(8, 8))
    summed = g.entrywise(lambda a, b, c: a + b + c, g.view(out, 1, m, 8), g.constant(8), x)

    mean = g.workload(f"row_mean:f32:m{m}n8", g.view(summed, m, 8))
    rest = g.entrywise(lambda a, b: a - b, summed, g.view(mean, 1, m, 1))
    square = g.workload(f"row_mean:f32:m{m}n8", g.view(g.entrywise(lambda a: a * a, rest), m, 8))
    shifted = g.entrywise(lambda a: a + 1e-5, g.view(square, 1, m, 1))
    root = g.entrywise(lambda a: Call(Function.SQRT, a), shifted)
    whole = g.entrywise(lambda a, b: a / b, rest, root)
    scaled = g.entrywise(lambda a, b: b * a, whole, g.constant(8))
    norm = g.entrywise(lambda a, b: a + b, scaled, g.constant(8))

    wide = g.workload(f"matmul:f32:m{m}k8n16:constant=b", g.view(norm, m, 8), g.constant(8, 16))
    biased = g.entrywise(lambda a, b: b + a, g.view(wide, 1, m, 16), g.constant(16))
    inner = g.entrywise(lambda a: Call(Function.ERF, a / 1.41421356), biased)
    gelu = g.entrywise(lambda a, b: a * (b + 1.0), biased, inner)
    half = g.entrywise(lambda a: a * 0.5, gelu)
    return g.graph(half)


def attention_in_vectors() -> Graph:
    """Attention of as many tokens as fill vectors."""
    return attention(12)


def attention_without_a_bias_of_keys() -> Graph:
    """Attention as Whisper has it."""
    return attention(12, bias_of_keys=False)


def image() -> Graph:
    """Convolution, batch norm, relu, pooling and a shortcut, in ONNX's order of axes."""
    g = Built()
    x = g.feed(1, 3, 8, 8)

    def conv(image: str, key: str, *weights: int) -> str:
        made = g.workload(key, g.transpose(image, 0, 2, 3, 1), g.constant(*weights))
        return g.transpose(made, 0, 3, 1, 2)

    def normed(image: str) -> str:
        c = g.shape(image)[1]
        return g.entrywise(
            lambda a, s, t: a * s + t, image, g.constant(c, 1, 1), g.constant(c, 1, 1)
        )

    one = normed(conv(x, "conv2d:f32:b1h8w8c3o4kh3kw3stride1pad1:constant=b", 3, 3, 3, 4))
    one = g.entrywise(lambda a: largest(a, 0.0), one)
    pooled = g.transpose(
        g.workload("max_pool2d:f32:b1h8w8c4kh2kw2stride2pad0", g.transpose(one, 0, 2, 3, 1)),
        0, 3, 1, 2,
    )  # fmt: skip
    deep = normed(conv(pooled, "depthwise_conv2d:f32:b1h4w4c4kh3kw3stride1pad1", 3, 3, 4))
    flat = normed(conv(deep, "conv2d:f32:b1h4w4c4o4kh1kw1stride1pad0:constant=b", 1, 1, 4, 4))
    added = g.entrywise(lambda a, b: largest(a + b, 0.0), flat, pooled)
    rows = g.view(added, 1, 64)
    return g.graph(g.workload("matmul:f32:m1k64n5:constant=b", rows, g.constant(64, 5)))


def pooled(row: str = "row_mean") -> Graph:
    """A classifier's end: an image of each channel becomes one number."""
    g = Built()
    x = g.transpose(g.feed(1, 3, 4, 4), 0, 2, 3, 1)
    made = g.workload(
        "conv2d:f32:b1h4w4c3o5kh3kw3stride1pad1:constant=b", x, g.constant(3, 3, 3, 5)
    )
    image = g.transpose(made, 0, 3, 1, 2)
    sums = g.workload(f"{row}:f32:m5n16", g.view(image, 5, 16))
    return g.graph(g.workload("matmul:f32:m1k5n2:constant=b", g.view(sums, 1, 5), g.constant(5, 2)))


def pooled_by_the_largest() -> Graph:
    return pooled("row_max")


def masked() -> Graph:
    """Scores of two heads with one mask for both, which is no constant."""
    g = Built()
    scores = g.workload("batch_matmul:f32:b2m3k4n5", g.feed(2, 3, 4), g.feed(2, 4, 5))
    return g.graph(g.entrywise(lambda a, b: a * 0.5 + b, scores, g.feed(3, 5)))


def tied() -> Graph:
    """Two products with one matrix and its transpose, which exporters write a second time."""
    g = Built()
    one, other = g.constant(520, 512), g.constant(512, 520)
    g.constants[other] = g.constants[one].T.copy()
    hidden = g.workload("matmul:f32:m1k520n512:constant=b", g.feed(1, 520), one)
    return g.graph(g.workload("matmul:f32:m1k512n520:constant=b", hidden, other))


def told(graph: Graph) -> list[str]:
    """Workloads by their operator, programs by their last stage; views are left out."""
    return [_told(node) for node in graph.nodes if not isinstance(node.op, View)]


def _told(node: Node) -> str:
    if isinstance(node.op, Workload):
        return "+".join((node.op.operator.name, *node.op.epilogue))
    assert isinstance(node.op, Program)
    (stage,) = node.op.normalised().stages
    return str(stage.value)


def same(before: Graph, after: Graph) -> None:
    assert faults(after) == ()
    feeds = fed(before)
    wanted, found = computed(before, feeds), computed(after, feeds)
    for name, entries in wanted.items():
        np.testing.assert_allclose(found[name], entries, rtol=1e-5, atol=1e-6)


RULES: list[Rule] = [
    pooling_channels_last,
    channels_last,
    elementwise_merged,
    norms_named,
    epilogues_fused,
    elementwise_merged,
    products_joined,
    movements_merged,
    transposes_folded,
    movements_merged,
    tied_weights_shared,
    attention_joined,
    movements_merged,
]


# Before all rules attention has 38 nodes that are no views, an image 22.
GOLDEN = {
    attention: [
        "matmul+bias",
        "x0[i2, i1 * 4 + i3]",
        "x0[i2, i1 * 4 + i3 + 16]",
        "x0[i1, i0 * 4 + i2 + 8]",
        "batch_matmul_nt+scale+bias",
        "softmax",
        "batch_matmul",
        "x0[i2, i1, i3]",
        "matmul+bias+residual",
        "layer_norm",
        "matmul+bias+gelu",
    ],
    attention_in_vectors: [
        "matmul+bias",
        "program",
        "matmul+bias+residual",
        "layer_norm",
        "matmul+bias+gelu",
    ],
    attention_without_a_bias_of_keys: [
        "matmul+bias",
        "program",
        "matmul+bias+residual",
        "layer_norm",
        "matmul+bias+gelu",
    ],
    image: [
        "x0[i0, i3, i1, i2]",
        "conv2d+bias+relu",
        "max_pool2d",
        "depthwise_conv2d+bias",
        "conv2d+bias+residual+relu",
        "x0[0, i2, i3, i1]",
        "matmul",
    ],
    pooled: ["x0[i0, i3, i1, i2]", "conv2d", "avg_pool2d", "matmul"],
    pooled_by_the_largest: ["x0[i0, i3, i1, i2]", "conv2d", "max_pool2d", "matmul"],
    masked: ["batch_matmul+scale+mask"],
    tied: ["matmul_nt", "matmul"],
}


@pytest.mark.parametrize("model", GOLDEN)
def test_every_rule_leaves_what_is_computed_and_few_calls_are_left(
    model: Callable[[], Graph],
) -> None:
    graph = model()
    for rule in RULES:
        changed = rule(graph)
        same(graph, changed)
        graph = changed
    assert told(graph) == GOLDEN[model]


def chain(*functions: Callable[..., Expression]) -> Graph:
    """Functions of entries behind a product, each in a node of its own."""
    g = Built()
    x = g.workload("matmul:f32:m3k4n5:constant=b", g.feed(3, 4), g.constant(4, 5))
    for function in functions:
        operands = function.__code__.co_argcount - 1
        x = g.entrywise(function, x, *(g.constant(5, low=0.5, high=1.5) for _ in range(operands)))
    return g.graph(x)


def tanh(x: Expression) -> Expression:
    return Call(Function.TANH, x)


CHAINS: dict[str, list[Callable[..., Expression]]] = {
    "matmul+gelu_tanh": [
        lambda x: 0.5 * x * (1.0 + tanh(0.7978845608 * (x + 0.044715 * (x * x * x))))
    ],
    "matmul+silu": [lambda x: x / (1.0 + Call(Function.EXP, 0.0 - x))],
    "matmul+bias+relu6": [lambda x, b: x - b, lambda x: smallest(largest(x, 0.0), 6.0)],
    "matmul+bias": [lambda x, b: x + b, lambda x, b: x / b, lambda x: x * 3.0, lambda x: x - 1.0],
    "matmul+bias+tanh+scale": [lambda x, b: x + b, tanh, lambda x: x * 2.0],
    # What is no epilogue stays behind: CLIP's gelu, and a bias that comes a second time.
    "matmul+bias; x0[i0, i1] * sigmoid(1.702 * x0[i0, i1])": [
        lambda x, b: x + b,
        lambda x: x * Call(Function.SIGMOID, 1.702 * x),
    ],
    "matmul+bias+relu; x0[i0, i1] + x1[i1]": [
        lambda x, b: x + b,
        lambda x: largest(x, 0.0),
        lambda x, b: x + b,
    ],
}


@pytest.mark.parametrize("golden", CHAINS)
def test_what_follows_a_product_becomes_its_epilogue_however_it_is_written(golden: str) -> None:
    graph = chain(*CHAINS[golden])
    after = epilogues_fused(elementwise_merged(graph))
    same(graph, after)
    assert "; ".join(told(after)) == golden


def test_a_value_that_others_read_too_is_kept_as_it_is() -> None:
    g = Built()
    x = g.workload("matmul:f32:m3k4n5:constant=b", g.feed(3, 4), g.constant(4, 5))
    graph = g.graph(x, g.entrywise(lambda a: largest(a, 0.0), x))
    after = epilogues_fused(graph)
    same(graph, after)
    assert told(after) == ["matmul", "max(x0[i0, i1], 0.0)"]


def test_weights_that_two_products_share_are_not_scaled() -> None:
    g = Built()
    x, w = g.feed(3, 4), g.constant(4, 5)
    one = g.workload("matmul:f32:m3k4n5:constant=b", x, w)
    two = g.workload("matmul:f32:m3k4n5:constant=b", g.entrywise(tanh, x), w)
    graph = g.graph(g.entrywise(lambda a: a * 3.0, one), g.entrywise(lambda a: a * 5.0, two))
    after = epilogues_fused(graph)
    same(graph, after)
    assert told(after) == ["tanh(x0[i0, i1])", "matmul+scale", "matmul+scale"]


def test_a_product_is_not_added_to_itself_by_its_own_call() -> None:
    g = Built()
    x = g.workload("matmul:f32:m3k4n5:constant=b", g.feed(3, 4), g.constant(4, 5))
    graph = g.graph(g.entrywise(lambda a: a + a, x))
    after = epilogues_fused(graph)
    same(graph, after)
    assert told(after) == ["matmul", "x0[i0, i1] + x0[i0, i1]"]


def test_a_part_of_joined_tensors_asks_nothing_of_the_other() -> None:
    """A row that is computed and one that is given are joined; the given one alone is taken."""
    g = Built()
    x, given = g.feed(4, 3), g.feed(1, 3)
    computed_row = g.program(
        (1, 3), lambda axes, a: a(axes[0] + 1, axes[1]) + a(axes[0] + 2, axes[1]), x
    )
    whole = g.program(
        (2, 3),
        lambda axes, a, b: Choice((axes[0] < 1,), a(axes[0], axes[1]), b(axes[0] - 1, axes[1])),
        computed_row,
        given,
    )
    graph = g.graph(g.program((1, 3), lambda axes, a: tanh(a(axes[0] + 1, axes[1])), whole))
    after = movements_merged(elementwise_merged(graph))
    same(graph, after)
    assert told(after) == ["tanh(x0[0, i1])"]
    (node,) = after.nodes
    assert node.inputs == (given,)
