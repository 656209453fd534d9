"""Sets how many examples a test tries in `make test`, and how many in `make test-all`."""

from collections.abc import Iterable

import pytest
from _pytest.mark import ParameterSet
from hypothesis import settings


def examples(thorough: int) -> int:
    """So many that Hypothesis draws in `make test-all`, and as large a share in other profiles."""
    return settings().max_examples * thorough // settings.get_profile("thorough").max_examples


def one_in(every: int, cases: Iterable[object]) -> list[ParameterSet]:
    """Parameters of a test: the first of so many cases in a row is tried in `make test`, the
    others are slow."""
    return [
        pytest.param(case, marks=() if number % every == 0 else pytest.mark.slow)
        for number, case in enumerate(cases)
    ]
