"""A batch of a range: entries that do not depend on one another, of which a plan computes one.

    input_ids[batch, sequence]     at 1 and at 2 entries: [1, 128] and [2, 128]
    y[batch, width]                y of two entries is y of the first, and y of the second

Texts of one batch are as long as the longest of them, and a plan of a range takes the time of the
texts that there are. So a page runs the plan for one entry after another.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from kernelzoo.domain.plan import PlanBatch
from kernelzoo.errors import InvalidInput, UnsupportedModel
from kernelzoo.numerics.operators import Array
from services.tuner.graph.evaluate import evaluate
from services.tuner.graph.golden import TOLERANCE, Way, entries_off, seeded_feeds
from services.tuner.graph.graph import Graph, GraphPort
from services.tuner.graph.ranges import ExtentRange, Extents

TRIED = (1, 2, 3)
"""Batches of so many entries are compared with as many runs of one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchRange:
    """A dimension that may be a batch beside others of a range. `imported_at` imports the
    model for extents of those and so many entries of this."""

    extents: ExtentRange
    imported_at: Callable[[Extents, int], Graph]

    def refusal(self, why: str) -> UnsupportedModel:
        """The error for what is no batch."""
        name, most = self.extents.name, self.extents.most
        return UnsupportedModel(
            f"no one plan serves {name}={self.extents.least}..{most}: {why}. Give {name} its "
            f"extents one by one, as in --dim {name}={','.join(map(str, sorted({1, most})))}"
        )

    def is_batch(self, extents: Extents) -> bool:
        """Returns whether this is the first axis of what has it, inputs and outputs."""
        try:
            one, two = (self.imported_at(extents, entries) for entries in TRIED[:2])
        except (InvalidInput, UnsupportedModel):
            return False
        ports = zip((*one.inputs, *one.outputs), (*two.inputs, *two.outputs), strict=False)
        shapes = [(one.values[a.value].shape, two.values[b.value].shape) for a, b in ports]
        grown = [(before, after) for before, after in shapes if before != after]
        return bool(grown) and all(
            before[:1] == (1,) and after == (2, *before[1:]) for before, after in grown
        )


def with_batch(graph: Graph, batch: BatchRange, extents: Extents) -> Graph:
    """The graph of ranges, which is for one entry of a batch. Raises UnsupportedModel where entries
    of a batch depend on one another at such extents."""
    one, *more = (batch.imported_at(extents, entries) for entries in TRIED)
    made = PlanBatch(
        name=batch.extents.name,
        least=batch.extents.least,
        most=batch.extents.most,
        inputs=_batched(one.inputs, more[0].inputs, one, more[0]),
        outputs=_batched(one.outputs, more[0].outputs, one, more[0]),
    )
    for several in more:
        _refuse_dependent(one, several, made, batch)
    return replace(graph, batch=made)


def _batched(
    ports: Sequence[GraphPort], others: Sequence[GraphPort], one: Graph, two: Graph
) -> tuple[int, ...]:
    """The numbers of ports that have another shape for two entries."""
    pairs = zip(ports, others, strict=True)
    return tuple(
        number
        for number, (a, b) in enumerate(pairs)
        if one.values[a.value].shape != two.values[b.value].shape
    )


def _refuse_dependent(one: Graph, several: Graph, made: PlanBatch, batch: BatchRange) -> None:
    inputs = {one.inputs[number].name for number in made.inputs}
    outputs = {one.outputs[number].name for number in made.outputs}
    for way in Way:
        feeds = seeded_feeds(several, way)
        right = evaluate(several, feeds)
        for entry in range(len(feeds[min(inputs)])):
            found = evaluate(one, {n: _entry(n in inputs, x, entry) for n, x in feeds.items()})
            for name, wanted in right.items():
                own = _entry(name in outputs, wanted, entry)
                if own.shape != found[name].shape or entries_off(found[name], own, TOLERANCE):
                    raise batch.refusal(f"output {name!r} of an entry depends on the other entries")


def _entry(is_batched: bool, entries: Array, entry: int) -> Array:
    return entries[entry : entry + 1] if is_batched else entries
