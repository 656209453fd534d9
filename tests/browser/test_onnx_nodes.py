"""One of ONNX's own tests of each operator, from its file to a page: `make nodes` runs all."""

from pathlib import Path

import pytest

from fixtures.node_pages import node_page
from fixtures.onnx_nodes import DEVIATIONS, NodeCase, differing, is_taken, node_cases

ALWAYS = ("test_isnan", "test_triu_one_row")
"""What compilers and rules once got wrong: NaN differs from itself, an axis of one entry."""


def chosen() -> list[NodeCase]:
    """The first of each operator that the import takes."""
    cases = [case for case in node_cases() if case.name not in DEVIATIONS]
    first: dict[str, NodeCase] = {}
    for case in cases:
        if case.operator not in first and is_taken(case):
            first[case.operator] = case
    return [*first.values(), *(case for case in cases if case.name in ALWAYS)]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_page_computes_what_onnx_says(tmp_path: Path) -> None:
    cases = chosen()
    with node_page(tmp_path) as run:
        found = run(cases)
    assert len(found) > 110
    for case in cases:
        outputs = found[case.name]
        assert not isinstance(outputs, str), f"{case.name}: {outputs}"
        assert not differing(case, outputs), case.name
