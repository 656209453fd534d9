"""The file of a model's weights: every constant once, in the order in which calls first use them.

Plans of one model share the file: what a second plan needs beside the first's lies behind it. A
model whose weights are stored in fewer bits has a second order of bytes: that of its plain weights,
by which plans name them, and that of the file, whose chunks are deflated where that makes them
smaller by a sixteenth.
"""

import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import numpy as np

from kernelzoo.domain.dtype import DType
from kernelzoo.domain.plan import ALIGNMENT_BYTES, Chunk, Weight
from kernelzoo.domain.weight_storage import Storage
from services.tuner.graph.edit import Entries
from services.tuner.graph.graph import Graph
from services.tuner.graph.storage import Bytes, StoredEntries, bytes_of

CHUNKS = 512
CHUNK_BYTES = (1 << 18, 1 << 20)
"""A file has at most so many chunks while they are within these bounds. A page holds two chunks and
a copy of one while weights come, and the plan has a hash of each."""
WORTH_INFLATING = 15 / 16
DEFLATE_LEVEL = 9

Key = tuple[DType, str]
"""The dtype of a constant and the SHA-256 of its entries."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightFile:
    """`parts` are offsets and bytes, in order; what lies between is padding. `plain_bytes` is what
    the weights take where they lie plain. `deflated` are the chunks of a file that has some."""

    parts: tuple[tuple[int, Bytes], ...]
    plain_bytes: int
    chunks: tuple[Chunk, ...]
    deflated: tuple[bytes, ...] | None = None

    @property
    def size_bytes(self) -> int:
        return sum(chunk.bytes for chunk in self.chunks)

    def blocks(self) -> Iterator[bytes]:
        """The bytes of the file, a chunk at a time."""
        yield from self.deflated or _blocks(self.parts)

    def write(self, path: Path) -> None:
        with path.open("wb") as file:
            for block in self.blocks():
                file.write(block)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanWeights:
    """The weights of one plan, and which of them each constant of its graph is."""

    weights: tuple[Weight, ...]
    numbers: dict[str, int]


def weight_file(
    graphs: Sequence[Graph], stored: Mapping[Key, StoredEntries] | None = None
) -> tuple[WeightFile, tuple[PlanWeights, ...]]:
    """One file for the plans of all graphs, and the part of each graph. `stored` are constants that
    are stored in fewer bits; the file is plain without."""
    plain, small = _Layout(), _Layout()
    plans = []
    for graph in graphs:
        weights: list[Weight] = []
        numbers: dict[str, int] = {}
        known: dict[Key, int] = {}
        for name in _in_order(graph):
            entries, value = graph.constants[name], graph.values[name]
            key = key_of(value.dtype, entries)
            if key not in known:
                known[key] = len(weights)
                weight = Weight(
                    name=printable(name),
                    dtype=value.dtype,
                    shape=value.shape,
                    offset=plain.offset(key, bytes_of(entries)),
                    bytes=entries.nbytes,
                    storage=None if stored is None else _storage(small, key, stored[key]),
                )
                weights.append(weight)
            numbers[name] = known[key]
        plans.append(_in_file_order(weights, numbers))
    file = _plain_file(plain) if stored is None else _deflated_file(small, plain.end)
    return file, tuple(plans)


def _in_file_order(weights: Sequence[Weight], numbers: Mapping[str, int]) -> PlanWeights:
    """Pages take the file from its beginning on, and each weight when its bytes are there: what a
    second plan alone needs comes last."""
    order = sorted(range(len(weights)), key=lambda number: weights[number].offset)
    places = {number: place for place, number in enumerate(order)}
    return PlanWeights(
        weights=tuple(weights[number] for number in order),
        numbers={name: places[number] for name, number in numbers.items()},
    )


def key_of(dtype: DType, entries: Entries) -> Key:
    return dtype, sha256(np.ascontiguousarray(entries).data).hexdigest()


class _Layout:
    """Bytes one after the other, each at a multiple of 64, equal ones once."""

    def __init__(self) -> None:
        self._offsets: dict[Key, int] = {}
        self.parts: list[tuple[int, Bytes]] = []
        self.end = 0

    def offset(self, key: Key, body: Bytes) -> int:
        if key not in self._offsets:
            offset = -(-self.end // ALIGNMENT_BYTES) * ALIGNMENT_BYTES
            self._offsets[key] = offset
            self.parts.append((offset, body))
            self.end = offset + body.nbytes
        return self._offsets[key]


def _storage(layout: _Layout, key: Key, stored: StoredEntries) -> Storage:
    return Storage(
        type=stored.type,
        offset=layout.offset(key, stored.body),
        bytes=stored.body.nbytes,
        axis=stored.axis,
    )


def _plain_file(layout: _Layout) -> WeightFile:
    return WeightFile(
        parts=tuple(layout.parts),
        plain_bytes=layout.end,
        chunks=tuple(_chunk(block) for block in _blocks(layout.parts)),
    )


def _deflated_file(layout: _Layout, plain_bytes: int) -> WeightFile:
    blocks, chunks = [], []
    for block in _blocks(layout.parts):
        deflated = zlib.compress(block, DEFLATE_LEVEL)
        worth = len(deflated) <= WORTH_INFLATING * len(block)
        blocks.append(deflated if worth else block)
        chunks.append(_chunk(blocks[-1], len(block) if worth else None))
    return WeightFile(
        parts=tuple(layout.parts),
        plain_bytes=plain_bytes,
        chunks=tuple(chunks),
        deflated=tuple(blocks),
    )


def _chunk(block: bytes, inflated: int | None = None) -> Chunk:
    return Chunk(bytes=len(block), sha256=sha256(block).hexdigest(), inflated=inflated)


def _in_order(graph: Graph) -> list[str]:
    """Constants as calls first use them, then those that are an output themselves."""
    used = [name for node in graph.nodes for name in node.inputs]
    used += [port.value for port in graph.outputs]
    return [name for name in dict.fromkeys(used) if name in graph.constants]


def printable(name: str) -> str:
    return "".join(letter for letter in name if letter.isprintable())[-256:]


def chunk_bytes(size_bytes: int) -> int:
    """A power of two."""
    least, most = CHUNK_BYTES
    return min(most, max(least, 1 << (-(-size_bytes // CHUNKS) - 1).bit_length()))


def _blocks(parts: Sequence[tuple[int, Bytes]]) -> Iterator[bytes]:
    size = chunk_bytes(max((offset + body.nbytes for offset, body in parts), default=1))
    held = bytearray()
    written = 0
    for offset, body in parts:
        held += bytes(offset - written - len(held))
        data = body.data
        for start in range(0, len(data), size):
            held += data[start : start + size]
            while len(held) >= size:
                yield bytes(held[:size])
                del held[:size]
                written += size
    if held:
        yield bytes(held)
