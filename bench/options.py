"""The command line of a benchmark, and how it ends."""

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from bench.report import CannotMeasure, Report, added, cpu_model, emit, read
from cli.stack.signals import interruptible
from kernelzoo.errors import StackError


def parser(description: str) -> ArgumentParser:
    made = ArgumentParser(description=description)
    made.add_argument("--json", type=Path, metavar="FILE", help="write the report there, too")
    made.add_argument(
        "--add",
        action="store_true",
        help="keep what the FILE of --json has and this run does not measure",
    )
    made.add_argument(
        "--tiny",
        action="store_true",
        help="run a few seconds of it, to see that it works: its figures say nothing",
    )
    return made


def run(
    parser: ArgumentParser,
    measure: Callable[[Namespace], Report | None],
    *,
    tiny: Sequence[str],
) -> None:
    """Exits with 0 whether or not a claim holds, with 1 and a sentence when it cannot measure.

    `measure` answers None when there is nothing to report. `tiny` are the arguments that make it a
    matter of seconds; what else is given comes after them, and no claim is judged. Ctrl-C and
    SIGTERM unwind it, so that it ends every process that it started.
    """
    options = parser.parse_args()
    if options.tiny:
        options = parser.parse_args([*tiny, *sys.argv[1:]])
    with interruptible():
        try:
            before = _before(options)
            report = measure(options)
            if report is not None:
                report = replace(report, claims=()) if options.tiny else report
                emit(report if before is None else added(before, report), options.json)
        except (CannotMeasure, StackError) as error:
            sys.exit(f"cannot measure: {error}")
        except KeyboardInterrupt:
            sys.exit("interrupted: nothing was measured")


def _before(options: Namespace) -> Report | None:
    """Reads the report that this one is to be added to. Raises CannotMeasure where that is another
    machine's."""
    if not options.add or options.json is None or not options.json.exists():
        return None
    before = read(options.json)
    if before.machine.get("cpu") != cpu_model():
        raise CannotMeasure(
            f"{options.json} is of {before.machine.get('cpu')}, and this is {cpu_model()}; "
            "write to another file"
        )
    return before
