"""The command line of a benchmark, and how it ends."""

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from pathlib import Path

from bench.report import CannotMeasure, Report, emit
from kernelzoo.cli.stack.signals import interruptible


def parser(description: str) -> ArgumentParser:
    made = ArgumentParser(description=description)
    made.add_argument("--json", type=Path, metavar="FILE", help="write the report there, too")
    return made


def run(parser: ArgumentParser, measure: Callable[[Namespace], Report | None]) -> None:
    """Exits with 0 whether or not a claim holds, with 1 and a sentence when it cannot measure.

    `measure` answers None when there is nothing to report. Ctrl-C and SIGTERM unwind it, so that
    it ends every process that it started.
    """
    options = parser.parse_args()
    with interruptible():
        try:
            report = measure(options)
            if report is not None:
                emit(report, options.json)
        except CannotMeasure as error:
            sys.exit(f"cannot measure: {error}")
        except KeyboardInterrupt:
            sys.exit("interrupted: nothing was measured")
