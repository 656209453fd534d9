"""Writes the dashboards for Grafana: `python -m dashboards.generate`."""

import json
from pathlib import Path

from dashboards.coverage import COVERAGE
from dashboards.model import document
from dashboards.serving import SERVING
from dashboards.tuning import TUNING
from dashboards.votes import VOTES

FOLDER = Path(__file__).parent / "grafana"
ALL = (COVERAGE, TUNING, VOTES, SERVING)


def generated() -> dict[str, str]:
    """Text by name of the file."""
    return {
        f"{each.uid.removeprefix('kernelzoo-')}.json": json.dumps(
            document(each), indent=2, ensure_ascii=False
        )
        + "\n"
        for each in ALL
    }


def main() -> None:
    for name, text in generated().items():
        (FOLDER / name).write_text(text)


if __name__ == "__main__":
    main()
