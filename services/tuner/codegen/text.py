"""The text of a module under construction: its lines, and its identifiers."""

import re
from collections.abc import Iterator
from contextlib import contextmanager


class Names:
    """Gives each buffer, variable and register of a program one valid, unique identifier."""

    def __init__(self, words: frozenset[str], taken: tuple[str, ...] = ()) -> None:
        """`words` mean something in the language, `taken` in the module."""
        self._words = words
        self._known: dict[tuple[str, str], str] = {}
        self._taken = set(taken)

    def of(self, kind: str, text: str) -> str:
        """The identifier of `text`; `kind` tells a buffer from a variable of the same name."""
        known = self._known.get((kind, text))
        if known is None:
            known = self._known[kind, text] = self._fresh(text)
        return known

    def _fresh(self, text: str) -> str:
        stem = re.sub(r"_+", "_", re.sub(r"\W", "_", text, flags=re.ASCII)).strip("_")
        if not stem or stem[0].isdigit():
            stem = f"v{stem}"
        name, count = stem, 0
        while name in self._taken or name in self._words:
            count += 1
            name = f"{stem}_{count}"
        self._taken.add(name)
        return name


class Writer:
    """Lines, indented by the blocks in which they stand."""

    def __init__(self, indent: str = "") -> None:
        self._lines: list[str] = []
        self._indent = indent

    def line(self, text: str) -> None:
        self._lines.append(self._indent + text)

    @contextmanager
    def block(self, head: str = "") -> Iterator[None]:
        """Lines written inside are indented, in braces behind `head`."""
        self.line(f"{head} {{" if head else "{")
        outer, self._indent = self._indent, self._indent + "  "
        yield
        self._indent = outer
        self.line("}")

    def text(self) -> str:
        return "\n".join(self._lines) + "\n"
