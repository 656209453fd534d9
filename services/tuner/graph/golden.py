"""Inputs by a seed, and the outputs that belong to them: what a page checks its kernels with.

The outputs are computed in NumPy from the graph as it was imported, before any rule changed it.
"""

from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelzoo.domain.dtype import DType
from kernelzoo.domain.plan import Golden, GoldenPart, PortDType
from kernelzoo.domain.workload import Workload
from services.tuner.graph.evaluate import evaluate
from services.tuner.graph.graph import Graph, GraphPort

SEED = 20_201
TOLERANCE = 1e-4

Feeds = dict[str, NDArray[Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class GoldenFile:
    """`feeds` and `outputs` by the names of ports, in the graph's dtypes."""

    golden: Golden
    body: bytes
    feeds: Feeds
    outputs: Feeds


def golden_file(graph: Graph, feeds: Feeds | None = None) -> GoldenFile:
    """The file of a graph as it was imported; `feeds` by the names of inputs, else seeded."""
    feeds = seeded_feeds(graph) if feeds is None else feeds
    return written(graph, feeds, evaluate(graph, feeds))


def written(
    graph: Graph, feeds: Feeds, outputs: Feeds, storage_error: float | None = None
) -> GoldenFile:
    body = bytearray()
    inputs = tuple(_append(body, port, feeds[port.name]) for port in graph.inputs)
    made = tuple(_append(body, port, outputs[port.name]) for port in graph.outputs)
    golden = Golden(
        sha256=sha256(body).hexdigest(),
        inputs=inputs,
        outputs=made,
        tolerance=TOLERANCE,
        storage_error=storage_error,
    )
    return GoldenFile(golden=golden, body=bytes(body), feeds=feeds, outputs=outputs)


def _append(body: bytearray, port: GraphPort, entries: NDArray[Any]) -> GoldenPart:
    kind = np.float32 if port.dtype.stored is DType.F32 else np.int32
    data = np.ascontiguousarray(entries, kind).tobytes()
    part = GoldenPart(name=port.name, offset=len(body), bytes=len(data))
    body += data
    return part


def seeded_feeds(graph: Graph) -> Feeds:
    """Real numbers are normally distributed. Integers that choose rows of a table are below its
    length; others are a mask that leaves out the last eighth of each row."""
    random = np.random.default_rng(SEED)
    limits = _limits(graph)
    return {port.name: _drawn(random, graph, port, limits) for port in graph.inputs}


def _drawn(
    random: np.random.Generator, graph: Graph, port: GraphPort, limits: dict[str, int]
) -> NDArray[Any]:
    shape = graph.values[port.value].shape
    if port.dtype is PortDType.FLOAT32:
        return random.standard_normal(shape, np.float32)
    limit = limits.get(port.value)
    if limit is not None and port.dtype is not PortDType.BOOL:
        return random.integers(0, limit, shape).astype(np.int32)
    mask = np.ones(shape, np.int32)
    if shape and shape[-1] >= 8:
        mask[..., -(shape[-1] // 8) :] = 0
    return mask


def _limits(graph: Graph) -> dict[str, int]:
    """Rows of the table that an input chooses from, through whatever is done to it before."""
    limits: dict[str, int] = {}
    for node in reversed(graph.nodes):
        for place, name in enumerate(node.inputs):
            value = graph.values[name]
            if value.dtype is not DType.I32 or name in graph.constants:
                continue
            limit = limits.get(node.output)
            if isinstance(node.op, Workload) and node.op.tensors[place].limit:
                limit = node.op.tensors[place].limit
            elif graph.values[node.output].dtype is not DType.I32:
                limit = None
            if limit is not None:
                limits[name] = min(limit, limits.get(name, limit))
    return limits
