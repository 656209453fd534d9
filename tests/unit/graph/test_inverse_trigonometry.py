"""Angles on every target, against float64."""

from pathlib import Path

import numpy as np
import pytest

from kernelzoo.domain.target import TargetKind
from services.tuner.graph.evaluate import evaluate
from services.tuner.graph.importing import import_model
from tests.unit.graph.models import parsed, written
from tests.unit.graph.targets import TARGETS, outputs_on

UNIT = np.concatenate((np.linspace(-1, 1, 2001), np.logspace(-40, 0, 400), [-0.0, -1.0, 1.0]))
ALL = np.concatenate((np.linspace(-9, 9, 2001), np.logspace(-40, 38, 600), -np.logspace(-9, 9, 99),
                      [-0.0, np.inf, -np.inf, np.nan]))  # fmt: skip
OPERATORS = {"Asin": (UNIT, np.arcsin), "Acos": (UNIT, np.arccos), "Atan": (ALL, np.arctan)}


@pytest.mark.parametrize("target", [None, *TARGETS])
@pytest.mark.parametrize("operator", OPERATORS)
def test_an_angle_is_right_to_a_few_units_in_the_last_place(
    operator: str, target: TargetKind | None, tmp_path: Path
) -> None:
    places, by_numpy = OPERATORS[operator]
    x = places.astype(np.float32)
    text = f"net (float[{x.size}] x) => (float[{x.size}] y) {{ y = {operator} (x) }}"
    graph = import_model(written(tmp_path, parsed(text)), {})
    made = outputs_on(target, graph, {"x": x}, tmp_path) if target else evaluate(graph, {"x": x})
    wanted = by_numpy(x.astype(np.float64)).astype(np.float32)
    normal = (np.abs(x) > 1.2e-38) | (x == 0)  # a GPU may take denormal numbers for zero
    np.testing.assert_array_equal(np.isnan(made["y"]), np.isnan(wanted))
    told = normal & ~np.isnan(wanted)
    far = 4 if target is not TargetKind.WEBGPU else 8
    np.testing.assert_array_max_ulp(made["y"][told], wanted[told], far)
    if operator != "Acos":
        assert np.array_equal(np.signbit(made["y"][x == 0]), np.signbit(x[x == 0]))
