"""Lines of text, indented by the blocks that they stand in."""

from collections.abc import Iterator
from contextlib import contextmanager


class Writer:
    def __init__(self) -> None:
        self._lines: list[str] = []
        self._indent = ""

    def line(self, text: str) -> None:
        self._lines.append(self._indent + text)

    @contextmanager
    def block(self, head: str = "") -> Iterator[None]:
        """Lines in braces, behind `head`."""
        self.line(f"{head} {{" if head else "{")
        outer, self._indent = self._indent, self._indent + "  "
        yield
        self._indent = outer
        self.line("}")

    def text(self) -> str:
        return "\n".join(self._lines) + "\n"
