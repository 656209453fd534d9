"""Golden files of the compiler."""

import pytest

from tests.snapshots import Golden, golden_in


@pytest.fixture
def golden() -> Golden:
    return golden_in("tuner")
