"""Finds extents at which a model may do something else than near the largest ones.

Numbers of a graph, those of shapes and those in expressions, grow evenly with the open extents:
what they are at the samples of a range says what they have to be anywhere. A length that a model
compares with 9 is found so without a run, as a number that is 0 at all samples is 1 there.

    y = x + 0.0      at 64, 60 and 56
    y = x + 1.0      at 9                    is odd
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from kernelzoo.domain.workload import Workload
from kernelzoo.errors import InvalidInput, UnsupportedModel
from kernelzoo.numerics.operators import Array
from services.tuner.graph.graph import Graph, View
from services.tuner.graph.ranges import ExtentRanges, Extents

NODES_LOOKED_AT = 20_000
"""An import of 400 nodes takes a tenth of a second, so that all of this takes five."""
MOST_ODD = 4
"""Extents are run in NumPy, one of each kind that is odd in the same way."""
_NUMBER = re.compile(r"-?[0-9]+(?:\.[0-9]+)?(?:e[-+]?[0-9]+)?")


def odd_extents(
    imported_at: Callable[..., Graph], ranges: ExtentRanges, samples: Sequence[Graph]
) -> tuple[Extents, ...]:
    """Extents that are odd, each in another way, of as many as are looked at. `samples` are the
    graphs at the samples of the ranges, as they are imported."""
    expected = _Expected.of([_Numbers.of(each) for each in samples], ranges)
    if expected is None:
        return ()
    kinds: dict[object, Extents] = {}
    for extents in _looked_at(ranges, NODES_LOOKED_AT // max(1, len(samples[0].nodes))):
        try:
            kind = expected.oddity(_Numbers.of(imported_at(*extents)), extents)
        except (InvalidInput, UnsupportedModel) as error:
            kind = str(type(error))
        if kind is not None:
            kinds.setdefault(kind, extents)
    return tuple(kinds.values())[:MOST_ODD]


def _looked_at(ranges: ExtentRanges, count: int) -> Iterator[Extents]:
    """Extents of each range beside the largest of the others, and of all at once."""
    own_count = max(1, count // len(ranges.ranges))
    known = {*ranges.samples, *ranges.tried}
    for place, own in enumerate(ranges.ranges):
        step = -(-(own.most - own.least) // own_count)
        for extent in range(own.least, own.most, max(1, step)):
            extents = (*ranges.most[:place], extent, *ranges.most[place + 1 :])
            if extents not in known:
                yield extents


@dataclass(frozen=True, slots=True)
class _Numbers:
    """All numbers of a graph in their order, and what stands around them."""

    around: str
    numbers: Array

    @classmethod
    def of(cls, graph: Graph) -> "_Numbers":
        lines = []
        for node in graph.nodes:
            op = node.op.program if isinstance(node.op, Workload) else node.op
            shape = graph.values[node.output].shape if isinstance(op, View) else op
            lines.append(f"{node.output}: {shape}")
        single = ((name, each) for name, each in graph.constants.items() if each.size == 1)
        lines += (f"{name} = {each.reshape(-1)[0]}" for name, each in single)
        text = "\n".join(lines)
        numbers = np.array(_NUMBER.findall(text), np.float64)
        return cls(_NUMBER.sub("#", text), numbers)


@dataclass(frozen=True, slots=True)
class _Expected:
    """`steps`: how much each number grows with each open extent, [ranges, numbers]. Those that do
    not grow evenly at the samples are not `known`."""

    largest: _Numbers
    most: Extents
    steps: Array
    known: Array

    @classmethod
    def of(cls, samples: Sequence[_Numbers], ranges: ExtentRanges) -> "_Expected | None":
        """None where samples differ by more than numbers."""
        largest, *apart = samples
        if any(each.around != largest.around for each in apart):
            return None
        most = ranges.most
        steps = np.array(
            [
                (largest.numbers - each.numbers) / (most[place] - extents[place])
                for place, (each, extents) in enumerate(
                    zip(apart[: len(most)], ranges.samples[1:], strict=False)
                )
            ]
        )
        unchecked = cls(largest, most, steps, np.ones(len(largest.numbers), np.bool_))
        known = unchecked.holds(samples[-1].numbers, ranges.samples[-1])
        return cls(largest, most, steps, known)

    def holds(self, numbers: Array, extents: Extents) -> Array:
        less = np.array(self.most) - np.array(extents)
        expected = self.largest.numbers - less @ self.steps
        near: Array = np.isclose(numbers, expected, rtol=1e-9, atol=1e-9)
        return near

    def oddity(self, found: _Numbers, extents: Extents) -> object:
        """Says in what a graph is odd; None where it is not."""
        if found.around != self.largest.around:
            return found.around
        odd = self.known & ~self.holds(found.numbers, extents)
        return tuple(np.flatnonzero(odd)) or None
