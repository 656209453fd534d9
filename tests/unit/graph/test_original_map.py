"""A weights file is put together of the author's file and a map, byte for byte."""

import json
import os
from base64 import b64encode
from hashlib import sha256
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import external_data_helper
from onnxruntime import quantization

from fixtures.encoder import Encoder
from services.tuner.graph.importing import imported
from services.tuner.graph.models import plan_graphs
from services.tuner.graph.original_map import original_map
from services.tuner.graph.reading import read_model
from services.tuner.graph.source_hashes import read_source
from services.tuner.graph.storing import Storing
from services.tuner.graph.weights import WeightFile

RECORDED = Path(__file__).parents[2] / "golden" / "original_map.json"
"""client/tests/own-weights.test.ts puts this file together."""
ENCODER = Encoder(layers=1, hidden=64, inner=256)


def map_of(
    path: Path, other: Path | None = None, storing: Storing | None = None
) -> tuple[bytes | None, WeightFile]:
    """The map of the model at `path`, by what lies in the `other` file, and its weights."""
    graph = imported(read_model(path), {})
    made = plan_graphs([graph], [{}], "encoder", storing=storing)
    places = read_source(other or path).places
    return original_map(made.weights, made.plans[0].weights, places), made.weights


def put_together(made: bytes, size: int, folder: Path, name: str) -> bytes:
    """Puts the weights together as a page does (client/src/ort/own-weights.ts)."""
    head, _, own = made.partition(b"\n")
    described = json.loads(head)
    files = [(folder / (each or name)).read_bytes() for each in described["locations"]]
    whole, taken = b"", 0
    for offset, count, columns, form, entry in [*described["parts"], [size, 0, [], "same", 1]]:
        gap = offset - len(whole)
        whole += own[taken : taken + gap]
        taken += gap
        rows_bytes = sum(width for *_, width in columns) or 1
        rows = count // rows_bytes
        matrices = [
            np.frombuffer(files[where], np.uint8, rows * width, start).reshape(rows, width)
            for where, start, width in columns
        ]
        joined = np.concatenate(matrices, axis=1) if columns else np.zeros(0, np.uint8)
        if form == "transposed":
            joined = joined.reshape(rows, -1, entry).swapaxes(0, 1)
        whole += joined.tobytes()
    assert taken == len(own)
    return whole


@pytest.mark.parametrize("external", [False, True])
def test_a_weights_file_is_the_authors_bytes_and_few_others(tmp_path: Path, external: bool) -> None:
    path = tmp_path / "model.onnx"
    if external:
        onnx.save(
            ENCODER.model(), path, save_as_external_data=True, location="beside.bin",
            size_threshold=0,
        )  # fmt: skip
    else:
        onnx.save(ENCODER.model(), path)
    made, file = map_of(path)
    assert made is not None
    right = b"".join(file.blocks())
    assert put_together(made, file.size_bytes, tmp_path, path.name) == right
    head, _, own_bytes = made.partition(b"\n")
    assert any(len(columns) == 3 for _, _, columns, *_ in json.loads(head)["parts"]), (
        "queries, keys, values"
    )
    own = len(own_bytes)
    assert own < 0.1 * len(right), "the map holds the weights itself"
    if external:
        assert json.loads(head)["locations"] == ["beside.bin"]
        assert external_data_helper.uses_external_data(
            onnx.load(path, load_external_data=False).graph.initializer[0]
        )


def test_matrices_of_bytes_lie_transposed_and_tables_as_they_are(tmp_path: Path) -> None:
    """onnxruntime's quantiser writes matrices by their rows, and tables of tokens as bytes."""
    path, quantised = tmp_path / "model.onnx", tmp_path / "quantised.onnx"
    onnx.save(ENCODER.model(), path)
    quantization.quantize_dynamic(path, quantised)
    made, file = map_of(quantised)
    assert made is not None
    right = b"".join(file.blocks())
    assert put_together(made, file.size_bytes, tmp_path, quantised.name) == right
    parts = json.loads(made.partition(b"\n")[0])["parts"]
    assert {part[3] for part in parts} == {"transposed", "same"}
    table_bytes = ENCODER.vocabulary * ENCODER.hidden
    assert table_bytes in [part[1] for part in parts if part[3] == "same"], "an entry to a byte"


def test_weights_that_the_file_has_otherwise_are_not_taken_from_it(tmp_path: Path) -> None:
    path, other = tmp_path / "model.onnx", tmp_path / "other.onnx"
    onnx.save(ENCODER.model(), path)
    onnx.save(ENCODER.model(seed=1), other)
    assert map_of(path, other)[0] is None
    made, fewer_bits = map_of(path, storing=Storing(storage=None, max_error=0.1))
    assert fewer_bits.deflated is not None
    assert made is None


def recorded(path: Path) -> dict[str, str | int]:
    made, file = map_of(path)
    assert made is not None
    return {
        "model": b64encode(path.read_bytes()).decode(),
        "map": b64encode(made).decode(),
        "bytes": file.size_bytes,
        "sha256": sha256(b"".join(file.blocks())).hexdigest(),
    }


def test_the_recorded_maps_are_what_an_import_makes(tmp_path: Path) -> None:
    """A page puts the same files together."""
    path, quantised = tmp_path / "model.onnx", tmp_path / "quantised.onnx"
    # Tables of tokens and matrices are weights, which have 1,024 bytes or more.
    small = Encoder(tokens=4, hidden=32, inner=32, layers=1, vocabulary=40)
    onnx.save(small.model(), path)
    quantization.quantize_dynamic(path, quantised)
    found = {"f32": recorded(path), "bytes": recorded(quantised)}
    if os.environ.get("UPDATE_GOLDEN"):
        RECORDED.write_text(json.dumps(found, indent=1) + "\n")
    assert json.loads(RECORDED.read_text()) == found
