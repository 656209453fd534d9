"""ONNX's own tests of operators from their files to a page: of operators of every kind with every
commit, of each operator before a release. `make nodes` runs all."""

from pathlib import Path

import pytest

from fixtures.node_pages import node_page
from fixtures.onnx_nodes import DEVIATIONS, NodeCase, differing, is_taken, node_cases

ALWAYS = ("test_isnan", "test_triu_one_row")
"""Compilers and rules once got these wrong: NaN differs from itself, an axis of one entry."""

KINDS = (
    *("Add", "Cast", "Gelu", "LessOrEqual", "Mod", "Where"),
    *("ArgMax", "CumSum", "ReduceMean", "Softmax", "TopK"),
    *("Concat", "Pad", "Slice", "Transpose"),
    *("Einsum", "Gemm", "Conv", "ConvTranspose", "MaxPool", "Resize"),
    *("BatchNormalization", "LayerNormalization", "Gather", "ScatterND", "Attention"),
    *("GRU", "LSTM", "RNN"),
    *("Atan", "Det", "LpPool", "RoiAlign", "GridSample", "STFT", "QLinearConv"),
)
"""Some of every file of `services/tuner/graph/onnx_operators`, and some that others define."""


def chosen() -> list[NodeCase]:
    """The first of each operator that the import takes."""
    cases = [case for case in node_cases() if case.name not in DEVIATIONS]
    first: dict[str, NodeCase] = {}
    for case in cases:
        if case.operator not in first and is_taken(case):
            first[case.operator] = case
    return [*first.values(), *(case for case in cases if case.name in ALWAYS)]


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_page_computes_operators_of_every_kind_as_onnx_says(tmp_path: Path) -> None:
    cases = [case for case in chosen() if case.operator in KINDS]
    assert {case.operator for case in cases} == set(KINDS)
    assert_a_page_agrees(tmp_path, cases)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_page_computes_each_operator_as_onnx_says(tmp_path: Path) -> None:
    cases = chosen()
    assert len(cases) > 110
    assert_a_page_agrees(tmp_path, cases)


def assert_a_page_agrees(folder: Path, cases: list[NodeCase]) -> None:
    with node_page(folder) as run:
        found = run(cases)
    for case in cases:
        outputs = found[case.name]
        assert not isinstance(outputs, str), f"{case.name}: {outputs}"
        assert not differing(case, outputs), case.name
