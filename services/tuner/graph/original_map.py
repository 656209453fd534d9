"""Says which bytes of a model's weights file are bytes of the file that it was imported from.

A page that has the author's file, as an application of onnxruntime-web does, puts the weights file
together from that and from a map of a few kilobytes, and fetches no weights from the zoo. What it
puts together is held to the hashes of the plan's chunks as any weights file is, so the map itself
needs no hash.

The map is one line of JSON, and behind it the bytes of the weights file that are not in the
author's: padding, small constants, and what the import computed of weights. Of

    {"locations": ["", "model.onnx_data"],
     "parts": [[128, 4096, [[0, 910, 16], [0, 7000, 16]], "same", 4]]}

the part says that 4096 bytes of the weights file from byte 128 on are two matrices side by side, of
which each row has 16 bytes of the model's own file, from byte 910 and from byte 7000 on: the import
multiplies by several weights at once. A weight that lies there as a whole is one matrix of one row.
What is put side by side is then the `same` in the weights file, or `transposed` with entries of so
many bytes.
"""

import json
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256
from math import prod

import numpy as np

from kernelzoo.domain.plan import Weight
from services.tuner.graph.source_hashes import WEIGHT_BYTES, WeightPlace
from services.tuner.graph.storage import Bytes
from services.tuner.graph.weights import WeightFile

MOST_OWN = 1 / 2
"""A map that holds a larger share of the weights itself spares little."""


class _Form(StrEnum):
    SAME = "same"
    TRANSPOSED = "transposed"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Column:
    """A matrix of the author's file whose rows have so many bytes."""

    place: WeightPlace
    row_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """A weight that lies in the author's file, and what is done with the columns."""

    columns: tuple[_Column, ...]
    form: _Form


def original_map(
    file: WeightFile, weights: Iterable[Weight], places: Sequence[WeightPlace]
) -> bytes | None:
    """`weights` are those of all plans. None where too little of them lies in the author's file as
    it does in ours: in files of weights in fewer bits, or where the import computes most of them.
    """
    if file.deflated is not None or file.size_bytes == 0:
        return None
    by_offset = {weight.offset: weight for weight in weights}
    by_digest = {place.sha256: place for place in places}
    found = {
        offset: part
        for offset, body in file.parts
        if body.nbytes >= WEIGHT_BYTES
        and (part := _part(body, by_offset[offset], by_digest)) is not None
    }
    own_bytes = file.size_bytes - sum(by_offset[offset].bytes for offset in found)
    if own_bytes > MOST_OWN * file.size_bytes:
        return None
    locations = list(dict.fromkeys(place.location for place in places))
    parts = [
        (
            offset,
            by_offset[offset].bytes,
            [
                (locations.index(each.place.location), each.place.offset, each.row_bytes)
                for each in part.columns
            ],
            part.form,
            by_offset[offset].dtype.size_bytes,
        )
        for offset, part in found.items()
    ]
    head = json.dumps({"locations": locations, "parts": parts}, separators=(",", ":"))
    return b"".join((head.encode(), b"\n", *_own(file, found)))


def _part(body: Bytes, weight: Weight, places: Mapping[str, WeightPlace]) -> _Part | None:
    for form, matrix in _matrices(body, weight):
        columns = _columns(matrix, places)
        if columns is not None:
            return _Part(columns=columns, form=form)
    return None


def _matrices(body: Bytes, weight: Weight) -> Iterator[tuple[_Form, Bytes]]:
    """Yields what a weight may be made of: uint8[rows, bytes of a row]."""
    yield _Form.SAME, body.reshape(1, -1)
    if len(weight.shape) > 1:
        rows = prod(weight.shape[:-1])
        yield _Form.SAME, body.reshape(rows, -1)
        # Pages move entries of up to 4 bytes; matrices of larger ones are indices, and small.
        if weight.dtype.size_bytes <= 4:
            entries = body.reshape(rows, weight.shape[-1], weight.dtype.size_bytes)
            yield _Form.TRANSPOSED, entries.swapaxes(0, 1).reshape(weight.shape[-1], -1)


def _columns(matrix: Bytes, places: Mapping[str, WeightPlace]) -> tuple[_Column, ...] | None:
    """Finds the matrices that one consists of, side by side; None where one is nowhere."""
    rows, row_bytes = matrix.shape
    widths = {
        place.bytes // rows for place in places.values() if place.bytes and place.bytes % rows == 0
    }
    columns: list[_Column] = []
    while (at := sum(each.row_bytes for each in columns)) < row_bytes:
        fitting = (_at(matrix[:, at : at + width], places) for width in sorted(widths))
        column = next((each for each in fitting if each is not None), None)
        if column is None:
            return None
        columns.append(column)
    return tuple(columns)


def _at(matrix: Bytes, places: Mapping[str, WeightPlace]) -> _Column | None:
    place = places.get(sha256(np.ascontiguousarray(matrix).data).hexdigest())
    return None if place is None else _Column(place=place, row_bytes=matrix.shape[1])


def _own(file: WeightFile, taken: Container[int]) -> Iterator[bytes | memoryview]:
    """The bytes of the file but for parts at the offsets that are `taken`."""
    at = 0
    for offset, body in file.parts:
        yield bytes(offset - at)
        if offset not in taken:
            yield body.data
        at = offset + body.nbytes
