"""Ctrl-C and SIGTERM: both unwind the same way, and neither cuts a clean-up short."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

INTERRUPTED = 130
"""The exit status of a command that Ctrl-C ended."""
_BOTH = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def interruptible() -> Iterator[None]:
    """SIGTERM raises KeyboardInterrupt inside the block, as SIGINT does."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Puts a signal that arrives inside the block off until its end: then it raises
    KeyboardInterrupt.
    """
    noted: list[int] = []

    def note(number: int, _frame: FrameType | None) -> None:
        noted.append(number)

    before = [signal.signal(number, note) for number in _BOTH]
    try:
        yield
    finally:
        for number, handler in zip(_BOTH, before, strict=True):
            signal.signal(number, handler)
    if noted:
        raise KeyboardInterrupt
