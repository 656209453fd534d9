"""ONNX's own tests of every operator that the import claims, against the page that says so."""

from fixtures.onnx_nodes import node_cases, wrong
from scripts.onnx_coverage import HEAD, PAGE, coverage


def test_the_page_says_which_tests_of_onnx_pass() -> None:
    """By what the import computes in NumPy: `make nodes` runs all of them in a browser."""
    rows = set(PAGE.read_text().splitlines())
    missing = [
        row
        for operator, found in coverage(node_cases(), wrong).items()
        if (row := found.row(operator)) not in rows
    ]
    assert not missing, "run `make nodes`"


def test_the_page_begins_with_what_the_import_and_its_benchmark_say() -> None:
    assert PAGE.read_text().startswith(HEAD), "run `make nodes`"
