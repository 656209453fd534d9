"""Means of whole images, each of what the one before scales: their errors add up."""

from pathlib import Path

import numpy as np
import pytest

from kernelzoo.domain.target import TargetKind
from services.tuner.graph.importing import import_model
from tests.unit.graph.models import drawn, parsed, written
from tests.unit.graph.targets import TARGETS, outputs_on

MEANS = 13


@pytest.mark.parametrize("target", TARGETS)
def test_thirteen_means_in_a_row_stay_exact_to_a_millionth(
    target: TargetKind, tmp_path: Path
) -> None:
    x = np.abs(drawn((1, 2, 160, 240), 3)) + np.float32(0.2)
    exact = x.astype(np.float64)
    lines, wanted = ["h0 = Identity (x)"], exact
    for n in range(MEANS):
        last = "y" if n == MEANS - 1 else f"h{n + 1}"
        lines += [f"m{n} = GlobalAveragePool (h{n})", f"{last} = Mul (x, m{n})"]
        wanted = exact * wanted.mean(axis=(2, 3), keepdims=True)
    shape = ", ".join(map(str, x.shape))
    text = f"g (float[{shape}] x) => (float[{shape}] y) {{ {' '.join(lines)} }}"
    graph = import_model(written(tmp_path, parsed(text)), {})
    made = outputs_on(target, graph, {"x": x}, tmp_path)["y"]
    np.testing.assert_allclose(made, wanted, rtol=1e-6, atol=0)
