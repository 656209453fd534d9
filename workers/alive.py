"""Checks that a worker's loop still turns. `python -m workers.alive` is a container's health check.

The loop touches the file that KERNELZOO_ALIVE_FILE names; the check reads its age. It imports the
standard library alone, since it runs every few seconds beside the worker.
"""

import os
import sys
import time
from pathlib import Path

TOUCH_EVERY_S = 5.0
STALE_S = 30.0


def touch(file: Path) -> None:
    file.touch()


def complaint(file: Path, now_s: float) -> str | None:
    """Returns what is wrong, or None while the file is fresh. `now_s` is the time of day."""
    try:
        age_s = now_s - file.stat().st_mtime
    except FileNotFoundError:
        return f"{file} does not exist: the loop has not turned yet"
    if age_s > STALE_S:
        return f"{file} was touched {age_s:.0f} s ago: the loop stands still, or has no broker"
    return None


def main() -> int:
    file = os.environ.get("KERNELZOO_ALIVE_FILE")
    if not file:
        print("set KERNELZOO_ALIVE_FILE to the file that the worker touches", file=sys.stderr)
        return 2
    wrong = complaint(Path(file), time.time())
    if wrong is not None:
        print(wrong, file=sys.stderr)
    return int(wrong is not None)


if __name__ == "__main__":
    sys.exit(main())
