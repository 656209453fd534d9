"""Golden files: text that is recorded and read again.

To write them anew after an intended change: `UPDATE_GOLDEN=1 pytest tests/…`, then read the
difference.
"""

import os
from collections.abc import Callable
from pathlib import Path

Golden = Callable[[str, str], None]


def golden_in(folder: str) -> Golden:
    """Compares text with the golden file of that name in a folder of tests/golden."""
    directory = Path(__file__).parent / "golden" / folder

    def compare(name: str, text: str) -> None:
        path = directory / name
        if os.environ.get("UPDATE_GOLDEN"):
            directory.mkdir(exist_ok=True)
            path.write_text(text)
        assert path.read_text() == text, f"{name} changed; tests/snapshots.py says what to do"

    return compare
