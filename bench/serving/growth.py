"""Measures what a zoo of ten million measurements takes longer for than one of a million: nothing
should.

Both are made by SQL in one server (`filled_zoo`), and asked in turns, each first in every other
round, so that what else the machine does hits both. A part's times are medians of the rounds, and
its ratio is the median of theirs; it says nothing where both times are below `FLOOR_MS`: there the
time is that of Python, sockets and turns of the processor. Where the
larger zoo has more to answer, up to the limit of the list, or more to remove, up to a batch, the
ratio is that of times for as much: `amount` is how many times as many bytes or rows there were.
What one connection does, panels and tasks, has its pages of 8 kB counted, too, from memory or not:
they do not depend on what else the machine does, nor on what is in memory.

What is asked is listed in `PARTS`: a function of a filled zoo each, whose parts have a name, a kind
and a bound. Add a function there for another kind of question.
"""

import tempfile
from argparse import Namespace
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack
from itertools import groupby
from pathlib import Path
from statistics import median

from bench.options import parser, run
from bench.report import Cell, Claim, Report, machine
from bench.serving.filled_zoo import TINY, FilledZoo, Scale, filled_zoos
from bench.serving.gateway_reads import gateway_reads
from bench.serving.growth_parts import Asked, NotAnswered, Part
from bench.serving.operations import operations
from cli.terminal import note

SIZES = (1_000_000, 10_000_000)
ROUNDS = 15
LEAST_ROUNDS = 5
ENOUGH_S = 6.0
"""Spent on one part, after which no more than `LEAST_ROUNDS` of it are begun."""
SAME = 1.2
"""The larger zoo may take so many times as long."""
FLOOR_MS = 10.0
"""Two parts of as many pages and rows differ by several milliseconds here, more than `SAME` allows
of less than this."""

Parts = Callable[[FilledZoo], AbstractContextManager[Sequence[Part]]]
PARTS: tuple[Parts, ...] = (gateway_reads, operations)
"""Each gives the same parts, in the same order, of every zoo."""


def main() -> None:
    options = parser("What the gateway, panels, scrapes and tasks take as a zoo grows.")
    options.add_argument("--measurements", type=int, nargs="+", default=list(SIZES))
    options.add_argument("--only", default="", help="parts whose name contains this text")
    options.add_argument("--rounds", type=int, default=ROUNDS)
    options.add_argument(
        "--keep",
        type=Path,
        metavar="FOLDER",
        help="keep the zoos there, and take those that it has: 9 GB for ten million measurements",
    )
    run(options, measure, tiny=("--measurements", "2000", "6000", "--rounds", "2"))


def measure(options: Namespace) -> Report:
    scale = TINY if options.tiny else Scale()
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        place = options.keep or Path(folder)
        zoos = stack.enter_context(filled_zoos(place, options.measurements, scale))
        rows = [
            _row(zoos, parts, options.rounds)
            for listed in PARTS
            for parts in zip(*(stack.enter_context(listed(zoo)) for zoo in zoos), strict=True)
            if options.only in parts[0].what
        ]
        migrated = {f"migrated_s_{zoo.measurements}": round(zoo.migrated_s, 1) for zoo in zoos}
        return Report(
            name="growth", machine=machine(**migrated), rows=rows, claims=list(_claims(rows))
        )


def _row(zoos: Sequence[FilledZoo], parts: Sequence[Part], rounds: int) -> dict[str, Cell]:
    """Medians in ms, `None` where there was no answer, as for `amount` and `ratio`: how many times
    as much the last answered as the first, and how many times as long it took for as much."""
    note(parts[0].what)
    asked = _asked_in_turns(parts, rounds)
    medians = [_middle(each) if each else None for each in asked]
    first, last = medians[0], medians[-1]
    times = {
        f"{zoo.measurements} ms": None if found is None else found.elapsed_ms
        for zoo, found in zip(zoos, medians, strict=True)
    }
    pages = {
        f"{zoo.measurements} pages": None if found is None else found.pages
        for zoo, found in zip(zoos, medians, strict=True)
    }
    return {
        "kind": parts[0].kind,
        "name": parts[0].what,
        **times,
        **pages,
        "amount": last.amount / first.amount if first and last and first.amount else None,
        "ratio": _ratio(first, last, zip(asked[0], asked[-1], strict=True))
        if first and last
        else None,
        "bound_ms": parts[0].bound_ms,
        "within": "yes" if last is not None and last.elapsed_ms <= parts[0].bound_ms else "no",
    }


def _ratio(first: Asked, last: Asked, rounds: Iterable[tuple[Asked, Asked]]) -> float | None:
    """`None` where both medians are below `FLOOR_MS`. Rounds are compared one by one: what slows
    the machine down for some of them changes times, and hardly their ratio."""
    if max(first.elapsed_ms, last.elapsed_ms) < FLOOR_MS:
        return None
    more = max(1.0, last.amount / first.amount) if first.amount else 1.0
    return median(large.elapsed_ms / small.elapsed_ms for small, large in rounds) / more


def _asked_in_turns(parts: Sequence[Part], rounds: int) -> list[list[Asked]]:
    """Asks each part in each round, and gives none of one that failed. The first round, in which
    pages are read and plans are made, is not counted."""
    found: list[list[Asked]] = [[] for _ in parts]
    failed: set[int] = set()
    spent_ms = 0.0
    for number in range(rounds + 1):
        turns = list(enumerate(parts))
        for place, part in turns if number % 2 else reversed(turns):
            if place in failed:
                continue
            try:
                asked = part.asked(number)
            except NotAnswered as refused:
                note(f"  {refused}")
                failed.add(place)
                continue
            spent_ms += asked.elapsed_ms
            found[place].append(asked)
        if number >= LEAST_ROUNDS and spent_ms > ENOUGH_S * 1e3:
            break
    return [[] if place in failed else asked[1:] or asked for place, asked in enumerate(found)]


def _middle(asked: Sequence[Asked]) -> Asked:
    return Asked(
        elapsed_ms=median(each.elapsed_ms for each in asked),
        amount=median(each.amount for each in asked),
        pages=median(pages)
        if (pages := [each.pages for each in asked if each.pages is not None])
        else None,
    )


def _claims(rows: Sequence[dict[str, Cell]]) -> Iterator[Claim]:
    for kind, found in groupby(rows, key=lambda row: row["kind"]):
        of_kind = list(found)
        over = [row for row in of_kind if row["within"] == "no"]
        ratios = [row["ratio"] for row in of_kind if isinstance(row["ratio"], float)]
        yield Claim.at_most(f"{kind}: over their bounds", len(over), f"of {len(of_kind)}", 0)
        what = f"{kind}: largest ratio above {FLOOR_MS:g} ms"
        yield Claim.at_most(what, max(ratios, default=0.0), "times", SAME)


if __name__ == "__main__":
    main()
