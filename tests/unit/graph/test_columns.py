"""Convolutions along the only column of an image are those along a row of it."""

from pathlib import Path

import numpy as np
import pytest

from kernelzoo.domain.workload import Workload
from tests.unit.graph.models import assert_as_reference, parsed

COLUMN = """g (float[1, 4, 20, 1] x, float[{out}, {each}, 5, 1] w, float[{out}] b) => (y) {{
    y = Conv <kernel_shape = [5, 1], group = {groups}, {more}> (x, w, b)
}}"""


@pytest.mark.parametrize(
    ("more", "groups", "name", "along"),
    [
        ("strides = [1, 1]", 1, "conv2d", "kw"),
        ("strides = [2, 1]", 1, "conv2d", "kw"),
        ("strides = [1, 3], pads = [2, 0, 2, 0]", 1, "conv2d", "kw"),
        ("pads = [2, 0, 1, 0]", 4, "depthwise_conv2d", "kw"),
        # Dilated ones lie in several columns, and padding beside a column makes several.
        ("dilations = [2, 1]", 1, "conv2d", "kh"),
        ("pads = [2, 1, 2, 1]", 1, "conv2d", "kh"),
    ],
)
def test_a_column_is_convolved_as_one_row(
    more: str, groups: int, name: str, along: str, tmp_path: Path
) -> None:
    out, each = (8, 4) if groups == 1 else (4, 1)
    model = parsed(COLUMN.format(out=out, each=each, groups=groups, more=more))
    shapes = {"x": (1, 4, 20, 1), "w": (out, each, 5, 1), "b": (out,)}
    random = np.random.default_rng(2)
    feeds = {key: random.standard_normal(shape, np.float32) for key, shape in shapes.items()}
    graph = assert_as_reference(tmp_path, model, feeds)
    (made,) = (node.op for node in graph.nodes if isinstance(node.op, Workload))
    assert made.operator.name == name
    assert made.extent[along] == 5
