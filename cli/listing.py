"""Rows as people and programs read them: a table in the terminal's width, plain lines, or JSON."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from pydantic import BaseModel
from rich.box import SIMPLE_HEAD
from rich.table import Table

from cli.terminal import note, out

Found = TypeVar("Found", bound=BaseModel)

GAP = 2
"""Columns of space between two cells."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A terminal shows those of rank 0, and of the others as many as fit, the lowest `rank` first.
    Numbers stand on the `right`.
    """

    heading: str
    rank: int = 0
    right: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """`caption` is said below a table at a terminal."""

    columns: tuple[Column, ...]
    rows: tuple[tuple[str, ...], ...]
    caption: str = ""

    def show(self) -> None:
        """At a terminal a table in its width; elsewhere all of it, a line for each row."""
        if not out.is_terminal:
            for line in self.lines():
                print(line)
            return
        shown = self.fitting(out.width)
        out.print(shown.table())
        left = [c.heading for c in self.columns if c not in shown.columns]
        if left:
            note(f"left out in {out.width} columns: {', '.join(left)}; --json has all")

    def table(self) -> Table:
        """Draws the rows; text that does not fit in columns of rank 0 is folded, never cut."""
        table = Table(
            box=SIMPLE_HEAD, padding=(0, GAP, 0, 0), pad_edge=False, caption=self.caption or None
        )
        for column in self.columns:
            table.add_column(
                column.heading,
                overflow="fold",
                no_wrap=column.rank > 0,
                justify="right" if column.right else "left",
            )
        for row in self.rows:
            table.add_row(*row)
        return table

    def lines(self) -> Iterable[str]:
        """Columns aligned, nothing cut or wrapped."""
        table = [tuple(column.heading for column in self.columns), *self.rows]
        widths = self._widths()
        for row in table:
            cells = zip(row, self.columns, widths, strict=True)
            aligned = (c.rjust(w) if column.right else c.ljust(w) for c, column, w in cells)
            yield (" " * GAP).join(aligned).rstrip()

    def fitting(self, width: int) -> "Listing":
        """Keeps the columns of rank 0, and of the others each that fits beside those before it."""
        widths = self._widths()
        room, kept = width, set[int]()
        for place in sorted(range(len(widths)), key=lambda each: self.columns[each].rank):
            if self.columns[place].rank == 0 or widths[place] + GAP <= room:
                kept.add(place)
                room -= widths[place] + GAP
        return Listing(
            columns=tuple(self.columns[place] for place in sorted(kept)),
            rows=tuple(tuple(row[place] for place in sorted(kept)) for row in self.rows),
            caption=self.caption,
        )

    def _widths(self) -> list[int]:
        return [
            max(len(column.heading), *(len(row[place]) for row in self.rows), 0)
            for place, column in enumerate(self.columns)
        ]


def show_all(
    found: Sequence[Found],
    columns: tuple[Column, ...],
    row: Callable[[Found], tuple[str, ...]],
    *,
    none: str,
    as_json: bool,
) -> None:
    """A line for each; where there is nothing, `none` says so, and what to do."""
    if as_json:
        print_json(found)
    elif found:
        Listing(columns=columns, rows=tuple(map(row, found))).show()
    else:
        note(none)


def print_json(found: BaseModel | Sequence[BaseModel] | Mapping[str, object]) -> None:
    """To standard output, in no colour and wrapped nowhere."""
    print(json.dumps(_plain(found), indent=2, ensure_ascii=False))


def _plain(found: BaseModel | Sequence[BaseModel] | Mapping[str, object]) -> object:
    if isinstance(found, BaseModel):
        return found.model_dump(mode="json")
    if isinstance(found, Mapping):
        return found
    return [each.model_dump(mode="json") for each in found]
