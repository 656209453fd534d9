"""Golden files of the compiler.

To write them anew after an intended change: `UPDATE_GOLDEN=1 pytest tests/unit/tuner`, then read
the difference.
"""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "golden" / "tuner"

Golden = Callable[[str, str], None]


@pytest.fixture
def golden() -> Golden:
    """Compares text with the golden file of that name."""

    def compare(name: str, text: str) -> None:
        path = FOLDER / name
        if os.environ.get("UPDATE_GOLDEN"):
            path.write_text(text)
        assert path.read_text() == text, f"{name} changed; see tests/unit/tuner/conftest.py"

    return compare
