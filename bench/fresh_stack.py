"""The whole stack as `kernelzoo up` runs it, with an empty zoo."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.report import CannotMeasure
from kernelzoo.cli.stack.place import Place
from kernelzoo.cli.stack.plan import Environment, StackOptions
from kernelzoo.cli.stack.ports import LOOPBACK, free_port
from kernelzoo.cli.stack.supervisor import Stack, running
from kernelzoo.errors import StackError


@contextmanager
def fresh_stack(overrides: Environment = ()) -> Iterator[Stack]:
    """In a directory that is removed with its data. Raises CannotMeasure."""
    options = StackOptions(
        host=LOOPBACK, port=free_port(), redis_port=free_port(), overrides=overrides
    )
    with tempfile.TemporaryDirectory() as folder:
        try:
            with running(Place.at(Path(folder)), options) as stack:
                yield stack
        except StackError as error:
            raise CannotMeasure(str(error)) from error
