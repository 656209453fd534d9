"""Reductions of hundreds of thousands of terms are imported, and right on every target."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from services.tuner.graph.importing import import_model
from tests.unit.graph.models import parsed, written
from tests.unit.graph.targets import TARGETS, outputs_on

Array = NDArray[Any]


def drawn(*shape: int) -> Array:
    return np.random.default_rng(5).uniform(-1, 2, shape).astype(np.float32)


def standardised(x: Array) -> Array:
    """Each row less its mean, by its deviation."""
    wide = x.astype(np.float64)
    rest = wide - wide.mean(axis=-1, keepdims=True)
    return np.asarray(rest / np.sqrt((rest**2).mean(axis=-1, keepdims=True) + 1e-5))


def shares(x: Array) -> Array:
    power = np.exp(x.astype(np.float64))
    return np.asarray(power / power.sum(axis=-1, keepdims=True))


IMAGE, GROUPS, ROWS = drawn(1, 3, 640, 480), drawn(1, 4, 512, 512), drawn(2, 300_000)
WEIGHTS = drawn(300_000, 4)
SCALE = """one = Constant <value_float = 1.0> ()
           n = Constant <value_ints = [{count}]> ()
           s = Expand (one, n)
           b = Sub (s, s)
        """
CASES = {
    "InstanceNormalization": (
        SCALE.format(count=3) + "y = InstanceNormalization (x, s, b)", {"x": IMAGE},
        standardised(IMAGE.reshape(3, -1)).reshape(IMAGE.shape),
    ),
    "GroupNormalization": (
        SCALE.format(count=4) + "y = GroupNormalization <num_groups = 2> (x, s, b)",
        {"x": GROUPS}, standardised(GROUPS.reshape(2, -1)).reshape(GROUPS.shape),
    ),
    "Softmax": ("y = Softmax <axis = 1> (x)", {"x": ROWS}, shares(ROWS)),
    "MatMul": (
        "y = MatMul (x, w)", {"x": ROWS, "w": WEIGHTS},
        ROWS.astype(np.float64) @ WEIGHTS.astype(np.float64),
    ),
    "ReduceMean": ("y = ReduceMean <keepdims = 0> (x)", {"x": ROWS}, ROWS.mean(dtype=np.float64)),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_a_very_long_sum_is_right_on_every_target(name: str, tmp_path: Path) -> None:
    body, feeds, wanted = CASES[name]
    declared = ", ".join(f"float{list(x.shape)} {key}" for key, x in feeds.items())
    shape = list(np.shape(wanted)) or ""
    text = f"g ({declared}) => (float{shape} y) {{ {body} }}"
    graph = import_model(written(tmp_path, parsed(text, 21)), {})
    largest = np.abs(wanted).max()
    for target in TARGETS:
        made = outputs_on(target, graph, feeds, tmp_path)["y"]
        np.testing.assert_allclose(made, wanted, rtol=0, atol=2e-6 * largest, err_msg=str(target))
