"""Where the commands write: results to standard output, the rest to standard error."""

import sys

from rich.console import Console

out = Console(highlight=False, soft_wrap=not sys.stdout.isatty())
notes = Console(stderr=True, highlight=False, soft_wrap=not sys.stderr.isatty())


def note(sentence: str) -> None:
    notes.print(sentence, markup=False)
