"""Operators of com.microsoft and recurrent layers, held to what onnxruntime 1.32 computed."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from onnx import parser

from kernelzoo.errors import InvalidInput, UnsupportedModel
from services.tuner.graph.evaluate import evaluate
from services.tuner.graph.fuse import fused
from services.tuner.graph.importing import import_model

RECORDED = Path(__file__).parents[3] / "fixtures" / "recorded" / "onnxruntime_operators.npz"
ARRAYS: dict[str, NDArray[Any]] = dict(np.load(RECORDED))


def recorded(case: str, kind: str) -> dict[str, NDArray[Any]]:
    start = f"{case}/{kind}."
    return {key[len(start) :]: value for key, value in ARRAYS.items() if key.startswith(start)}


@pytest.mark.parametrize("case", sorted({key.split("/")[0] for key in ARRAYS}))
def test_an_operator_of_onnxruntime_computes_the_same(case: str, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(ARRAYS[f"{case}/model"].tobytes())
    graph = import_model(path, {})
    feeds = recorded(case, "input")
    for made in (evaluate(graph, feeds), evaluate(fused(graph), feeds)):
        for name, wanted in recorded(case, "output").items():
            reach = 1e-5 * max(1.0, float(np.abs(wanted).max()))
            np.testing.assert_allclose(made[name], wanted, rtol=1e-4, atol=reach, err_msg=name)


HEAD = """<ir_version: 8, opset_import: ["": 17, "com.microsoft": 1]>
g (float[2, 3, 8] x, float[2, 3] s, uint8[4, 1, 4] w, int32[2] n, int32[1] t) => (float y)
"""


REFUSED = """
MatMulNBits <K=8, N=4, bits=4, block_size=8> (x, w, s)            its weight depends on inputs
MatMulNBits <K=8, N=4, bits=3, block_size=8> (x, w, s)            its weights have 3 bits
MatMulNBits <K=8, N=4, bits=4, block_size=0> (x, w, s)            is not made as its operator
Attention <num_heads=0> (x, x)                                    is not made as its operator
Attention <num_heads=2, do_rotary=1> (x, x)                       it has do_rotary
MultiHeadAttention <num_heads=2> (x)                              are packed
MultiHeadAttention <num_heads=3> (x, x, x)                        do not fit the operator
GroupQueryAttention <num_heads=2, kv_num_heads=1> (x, x, x, , , n, t)   depends on inputs
GroupQueryAttention <num_heads=2, kv_num_heads=1> (x)             its total length
SkipLayerNormalization (x)                                        do not fit the operator
FusedConv <activation="Sine"> (x, x)                              its activation Sine is not known
QAttention (x)                                                    that the import knows
"""


@pytest.mark.parametrize("row", REFUSED.strip().splitlines())
def test_a_form_that_is_not_carried_over_is_refused_in_a_sentence(row: str, tmp_path: Path) -> None:
    node, sentence = row.split("  ", 1)
    path = tmp_path / "model.onnx"
    model = parser.parse_model(f"{HEAD}{{ y = com.microsoft.{node} }}")
    path.write_bytes(model.SerializeToString())
    with pytest.raises((InvalidInput, UnsupportedModel)) as told:
        import_model(path, {})
    assert sentence.strip() in str(told.value)
    assert "; " in str(told.value), "it says what would help"
