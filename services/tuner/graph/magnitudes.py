"""Finds the values of a network that no f16 holds where its inputs are large.

Golden inputs are small, and pages give others. So a network is evaluated with inputs that are some
times as large (`SCALES`). A value that grows with them beyond the largest f16 stays f32. One that
does not grow is a mask, such as -3.4e38, of which f16 takes the nearest.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelzoo.domain.dtype import DType
from kernelzoo.errors import InvalidInput
from services.tuner.graph.evaluate import evaluate
from services.tuner.graph.graph import Graph, Node, told

SCALES = (8, 64)
"""64 times what is normally distributed is what pictures have that nobody has scaled to 0 to 1."""
GROWN = 2.0
"""A value that becomes so many times as large from the golden inputs to the largest ones grows."""
LARGEST = float(np.finfo(np.float16).max)

Feeds = Mapping[str, NDArray[Any]]


def wide_nodes(graph: Graph, feeds: Feeds) -> tuple[Node, ...]:
    """Returns in their order the nodes that make numbers beyond f16 at some scale of the inputs."""
    first, *scaled = (_magnitudes(graph, _times(feeds, scale)) for scale in (1, *SCALES))
    return tuple(
        node
        for node in graph.nodes
        if any(
            each.get(node.output, 0) > max(LARGEST, GROWN * first.get(node.output, 0))
            for each in scaled
        )
    )


def refuse_overflow(graph: Graph, feeds: Feeds) -> None:
    """Raises InvalidInput where some scale of the inputs makes outputs of a graph with values of
    f16 that are no numbers, although the inputs themselves do not."""
    for scale in SCALES:
        beyond: list[Node] = []

        def seen(node: Node, entries: NDArray[Any], beyond: list[Node] = beyond) -> NDArray[Any]:
            stored = graph.values[node.output].dtype
            if stored is DType.F16 and _magnitude(entries) > LARGEST:
                beyond.append(node)
            return entries

        outputs = evaluate(graph, _times(feeds, scale), seen=seen)
        if beyond and not all(np.isfinite(each).all() for each in outputs.values()):
            raise InvalidInput(
                f"with values as f16, inputs {scale} times as large as the golden ones make "
                f"outputs that are no numbers, as {told(beyond[0])} leaves what f16 holds; take "
                "--dtype f32"
            )


def _times(feeds: Feeds, scale: int) -> dict[str, NDArray[Any]]:
    return {
        name: each * np.float32(scale) if each.dtype.kind == "f" else each
        for name, each in feeds.items()
    }


def _magnitudes(graph: Graph, feeds: Feeds) -> dict[str, float]:
    """The largest magnitude of each value that is a finite number."""
    found: dict[str, float] = {}

    def seen(node: Node, entries: NDArray[Any]) -> NDArray[Any]:
        if graph.values[node.output].dtype is DType.F32:
            found[node.output] = _magnitude(entries)
        return entries

    evaluate(graph, feeds, seen=seen)
    return found


def _magnitude(entries: NDArray[Any]) -> float:
    sizes = np.abs(entries)
    return float(sizes.max(initial=0.0, where=np.isfinite(sizes)))
