"""Where the commands write: results to standard output, the rest to standard error."""

from rich.console import Console

out = Console(highlight=False)
notes = Console(stderr=True, highlight=False, soft_wrap=True)


def note(sentence: str) -> None:
    notes.print(sentence, markup=False)
