"""The command line of a benchmark, and how it ends."""

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from pathlib import Path

from bench.report import CannotMeasure, Report, emit


def parser(description: str) -> ArgumentParser:
    made = ArgumentParser(description=description)
    made.add_argument("--json", type=Path, metavar="FILE", help="write the report there, too")
    return made


def run(parser: ArgumentParser, measure: Callable[[Namespace], Report]) -> None:
    """Exits with 0 whether or not a claim holds, with 1 and a sentence when it cannot measure."""
    options = parser.parse_args()
    try:
        emit(measure(options), options.json)
    except CannotMeasure as error:
        sys.exit(f"cannot measure: {error}")
