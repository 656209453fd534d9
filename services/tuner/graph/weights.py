"""The file of a model's weights: every constant once, in the order in which calls first use them.

Plans of one model share the file: what a second plan needs beside the first's lies behind it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import numpy as np

from kernelzoo.domain.dtype import DType
from kernelzoo.domain.plan import ALIGNMENT_BYTES, Chunk, Weight
from services.tuner.graph.edit import Entries
from services.tuner.graph.graph import Graph

CHUNK_BYTES = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightFile:
    """`parts` are offsets and entries, in order; what lies between is padding."""

    parts: tuple[tuple[int, Entries], ...]
    size_bytes: int
    chunks: tuple[Chunk, ...]

    def blocks(self) -> Iterator[bytes]:
        """The bytes of the file, a chunk at a time."""
        yield from _blocks(self.parts)

    def write(self, path: Path) -> None:
        with path.open("wb") as file:
            for block in self.blocks():
                file.write(block)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanWeights:
    """The weights of one plan, and which of them each constant of its graph is."""

    weights: tuple[Weight, ...]
    numbers: dict[str, int]


def weight_file(graphs: Sequence[Graph]) -> tuple[WeightFile, tuple[PlanWeights, ...]]:
    """One file for the plans of all graphs, and the part of each graph."""
    offsets: dict[tuple[DType, str], int] = {}
    parts: list[tuple[int, Entries]] = []
    plans = []
    end = 0
    for graph in graphs:
        weights: list[Weight] = []
        numbers: dict[str, int] = {}
        known: dict[tuple[DType, str], int] = {}
        for name in _in_order(graph):
            entries, value = graph.constants[name], graph.values[name]
            key = (value.dtype, sha256(np.ascontiguousarray(entries).data).hexdigest())
            if key not in offsets:
                offsets[key] = -(-end // ALIGNMENT_BYTES) * ALIGNMENT_BYTES
                parts.append((offsets[key], entries))
                end = offsets[key] + entries.nbytes
            if key not in known:
                known[key] = len(weights)
                weight = Weight(
                    name=printable(name),
                    dtype=value.dtype,
                    shape=value.shape,
                    offset=offsets[key],
                    bytes=entries.nbytes,
                )
                weights.append(weight)
            numbers[name] = known[key]
        plans.append(PlanWeights(weights=tuple(weights), numbers=numbers))
    chunks = tuple(
        Chunk(bytes=len(block), sha256=sha256(block).hexdigest()) for block in _blocks(parts)
    )
    return WeightFile(parts=tuple(parts), size_bytes=end, chunks=chunks), tuple(plans)


def _in_order(graph: Graph) -> list[str]:
    """Constants as calls first use them, then those that are an output themselves."""
    used = [name for node in graph.nodes for name in node.inputs]
    used += [port.value for port in graph.outputs]
    return [name for name in dict.fromkeys(used) if name in graph.constants]


def printable(name: str) -> str:
    return "".join(letter for letter in name if letter.isprintable())[-256:]


def _blocks(parts: Sequence[tuple[int, Entries]]) -> Iterator[bytes]:
    held = bytearray()
    written = 0
    for offset, entries in parts:
        held += bytes(offset - written - len(held))
        data = np.ascontiguousarray(entries).reshape(-1).view(np.uint8).data
        for start in range(0, len(data), CHUNK_BYTES):
            held += data[start : start + CHUNK_BYTES]
            while len(held) >= CHUNK_BYTES:
                yield bytes(held[:CHUNK_BYTES])
                del held[:CHUNK_BYTES]
                written += CHUNK_BYTES
    if held:
        yield bytes(held)
