"""Hashes a file of ONNX twice: its graph with the weights left out, and the weights.

Pages ask the zoo for a model by the two hashes (client/src/ort/source-hashes.ts computes the same),
and a zoo that knows the graph with other weights can say so. What is hashed are the bytes of the
file, field by field of the protocol buffer, so that neither side writes a message anew:

1. A message that may hold a tensor is its tag, what its fields are, and a zero byte, which begins
   no field. Its length is left out, as it counts the weights.
2. Any other field is hashed as it stands.
3. Of a tensor with `WEIGHT_BYTES` or more, or in an external file, the entries and where they lie
   are left out. Those of smaller ones, such as shapes, belong to the graph.

The hash of the weights is that of the hashes of the entries of each such tensor, 64 digits
each, in the order of the file. Where the entries lie is told, too, so that a page can take weights
from the file (original_map.py).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from mmap import ACCESS_READ, mmap
from pathlib import Path
from types import MappingProxyType
from typing import Final

from kernelzoo.errors import InvalidInput
from services.tuner.graph.reading import external_path

WEIGHT_BYTES = 1024
"""ONNX's own tools take smaller tensors for a part of the graph, too, when they move weights to a
file of their own."""
MAX_DEPTH = 64
"""Messages within messages: four for each graph within a node."""

_MODEL, _GRAPH, _NODE, _ATTRIBUTE, _FUNCTION, _TENSOR = range(6)
_HOLDS: Final[Mapping[int, Mapping[int, int]]] = MappingProxyType(
    {
        _MODEL: {7: _GRAPH, 25: _FUNCTION},
        _GRAPH: {1: _NODE, 5: _TENSOR},
        _NODE: {5: _ATTRIBUTE},
        _ATTRIBUTE: {5: _TENSOR, 6: _GRAPH, 10: _TENSOR, 11: _GRAPH},
        _FUNCTION: {7: _NODE},
    }
)
"""Fields whose messages may hold a tensor, by their numbers in onnx.proto."""
_ENTRIES = frozenset((4, 5, 6, 7, 9, 10, 11))
_NAME, _EXTERNAL_DATA, _DATA_LOCATION = 8, 13, 14
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_FIXED_BYTES = {_FIXED64: 8, _FIXED32: 4}


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceHashes:
    """SHA-256 of the graph of a file without its weights, and of the weights: 64 digits each."""

    graph: str
    weights: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightPlace:
    """The entries of a weight are these bytes of a file: of the model's own where `location` is
    empty, or of an external one that it calls so."""

    sha256: str
    location: str
    offset: int
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceFile:
    """`places` are those of weights whose entries lie in one piece."""

    hashes: SourceHashes
    places: tuple[WeightPlace, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Field:
    """`whole` begins with the tag; `payload` is what stands behind tag and length, and begins at
    byte `start` of the message."""

    number: int
    wire: int
    start: int
    tag: memoryview
    whole: memoryview
    payload: memoryview


def read_source(path: Path) -> SourceFile:
    """Raises InvalidInput for a file that is no protocol buffer, or whose external files lack."""
    walk = _Walk(folder=path.parent)
    with path.open("rb") as file:
        # It ends with the last view of it, some of which an exception may hold.
        mapped = mmap(file.fileno(), 0, access=ACCESS_READ)
    walk.message(memoryview(mapped), _MODEL, 0, 0)
    hashes = SourceHashes(graph=walk.graph.hexdigest(), weights=walk.weights.hexdigest())
    return SourceFile(hashes=hashes, places=tuple(walk.places))


class _Walk:
    def __init__(self, folder: Path) -> None:
        self.graph = sha256()
        self.weights = sha256()
        self.places: list[WeightPlace] = []
        self._folder = folder

    def message(self, body: memoryview, kind: int, depth: int, start: int) -> None:
        """`start` is where the message begins in the file."""
        if depth > MAX_DEPTH:
            raise InvalidInput("the file has graphs nested too deep; export it without them")
        if kind == _TENSOR:
            self._tensor(body, start)
            return
        held = _HOLDS[kind]
        for field in _fields(body):
            inner = held.get(field.number) if field.wire == _BYTES else None
            if inner is None:
                self.graph.update(field.whole)
            else:
                self.graph.update(field.tag)
                self.message(field.payload, inner, depth + 1, start + field.start)
                self.graph.update(b"\0")

    def _tensor(self, body: memoryview, start: int) -> None:
        fields = list(_fields(body))
        pieces = [each for each in fields if each.number in _ENTRIES]
        entries = [each.payload for each in pieces]
        external = [each.payload for each in fields if each.number == _EXTERNAL_DATA]
        is_weight = bool(external) or sum(map(len, entries)) >= WEIGHT_BYTES
        left_out = {*_ENTRIES, _EXTERNAL_DATA, _DATA_LOCATION} if is_weight else set()
        for field in fields:
            if field.number not in left_out:
                self.graph.update(field.whole)
        if is_weight:
            of = next((_text(each) for each in fields if each.number == _NAME), "")
            place = (
                self._external(external, of)
                if external
                else WeightPlace(
                    sha256=_digest(entries),
                    location="",
                    offset=start + pieces[0].start,
                    bytes=sum(map(len, entries)),
                )
            )
            self.weights.update(place.sha256.encode())
            if external or len(pieces) == 1:
                self.places.append(place)

    def _external(self, told: list[memoryview], of: str) -> WeightPlace:
        """A part of a file beside the model."""
        pairs = ({each.number: _text(each) for each in _fields(pair)} for pair in told)
        place = {pair.get(1, ""): pair.get(2, "") for pair in pairs}
        name = place.get("location", "")
        path = external_path(self._folder, name, of)
        try:
            offset, length = int(place.get("offset") or 0), int(place.get("length") or 0)
        except ValueError as error:
            raise InvalidInput(f"an external tensor in {name!r} has no place") from error
        end = offset + (length or path.stat().st_size - offset)
        if not 0 <= offset <= end <= path.stat().st_size:
            raise InvalidInput(f"the external file {name!r} was cut off; fetch it again")
        digest, at = sha256(), offset
        with path.open("rb") as file:
            file.seek(offset)
            while at < end and (piece := file.read(min(1 << 20, end - at))):
                digest.update(piece)
                at += len(piece)
        return WeightPlace(
            sha256=digest.hexdigest(), location=name, offset=offset, bytes=end - offset
        )


def _text(field: _Field) -> str:
    return bytes(field.payload).decode(errors="replace")


def _digest(parts: list[memoryview]) -> str:
    digest = sha256()
    for part in parts:
        digest.update(part)
    return digest.hexdigest()


def _fields(body: memoryview) -> Iterator[_Field]:
    """Raises InvalidInput where a field does not end within the message."""
    at = 0
    while at < len(body):
        key, behind = _varint(body, at)
        number, wire = key >> 3, key & 7
        if wire == _VARINT:
            start, (_, end) = behind, _varint(body, behind)
        elif wire == _BYTES:
            length, start = _varint(body, behind)
            end = start + length
        else:
            start, end = behind, behind + _FIXED_BYTES.get(wire, len(body))
        if number == 0 or end > len(body):
            raise _torn()
        yield _Field(
            number=number,
            wire=wire,
            start=start,
            tag=body[at:behind],
            whole=body[at:end],
            payload=body[start:end],
        )
        at = end


def _varint(body: memoryview, at: int) -> tuple[int, int]:
    """A number, and where the next byte is."""
    value = 0
    for place in range(at, min(at + 10, len(body))):
        value |= (body[place] & 0x7F) << 7 * (place - at)
        if body[place] < 0x80:
            return value, place + 1
    raise _torn()


def _torn() -> InvalidInput:
    return InvalidInput("the file is no ONNX model, or it was cut off; export or fetch it again")
