"""Commands write here: results to standard output, the rest to standard error.

`live_display` changes in place at a terminal; elsewhere it prints lines at a readable pace.
"""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console, RenderableType
from rich.live import Live
from rich.text import Text

out = Console(highlight=False, soft_wrap=not sys.stdout.isatty())
notes = Console(stderr=True, highlight=False, soft_wrap=not sys.stderr.isatty())


def note(sentence: str) -> None:
    notes.print(sentence, markup=False)


def megabytes(size_bytes: int) -> str:
    """Writes a size as people read it; a small one in kilobytes."""
    return f"{size_bytes / 1e6:,.1f} MB" if size_bytes >= 1e5 else f"{size_bytes / 1e3:.1f} kB"


PLAIN_EVERY_S = 2.0

Show = Callable[[str, RenderableType | None], None]


@contextmanager
def live_display(to: Console = out) -> Iterator[Show]:
    """Gives `show(plain, rich)`: the rich form (or the plain one) at a terminal, else the plain."""
    if not to.is_terminal:
        yield _paced(to)
        return
    with Live(console=to, refresh_per_second=8) as live:
        yield lambda plain, rich: live.update(Text(plain) if rich is None else rich)


def _paced(to: Console) -> Show:
    """Prints what has changed, at most once in `PLAIN_EVERY_S`."""
    shown, shown_s = "", float("-inf")

    def show(plain: str, _rich: RenderableType | None) -> None:
        nonlocal shown, shown_s
        now_s = time.monotonic()
        if plain != shown and now_s - shown_s >= PLAIN_EVERY_S:
            shown, shown_s = plain, now_s
            print(plain, file=to.file, flush=True)

    return show
