"""Documents that are written from tables and results are current."""

from scripts import operators, plan_figures, sizing


def test_the_operators_page_is_current() -> None:
    assert operators.PAGE.read_text() == operators.page(), "run `make generate`"


def test_the_sizing_page_is_of_the_results() -> None:
    assert sizing.PAGE.read_text() == sizing.page(), "run `make generate`"


def test_the_tables_of_plans_are_of_the_results() -> None:
    page = plan_figures.page()
    assert page.count("| mobilenetv2 |") == 2, "a column of rules, and a row of networks"
    assert plan_figures.PAGE.read_text() == page, "run `make generate`"
