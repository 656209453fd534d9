"""Language models whose weights of 4 bits have zero points, as files of ONNX have them."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest

from fixtures.language_onnx import OnnxForm, decoder_onnx, zero_points
from kernelzoo.formats.plans import plan_bytes
from services.tuner.graph.evaluate import evaluate
from services.tuner.graph.importing import import_model
from services.tuner.language.checkpoint import Seeded
from services.tuner.language.config import LanguageConfig
from services.tuner.language.decoder import decoder_graph
from services.tuner.language.onnx_decoder import read_decoder
from services.tuner.language.packed import is_same, packed_matrix
from services.tuner.language.planning import plan_decoder, plan_language_model
from services.tuner.language.quantise import Quantised, packed_steps
from services.tuner.language.reference import Reference
from tests.language_steps import LLAMA, prompt_logits

UNTIED = replace(LLAMA, bias=True, tied=False)
SYMMETRIC = ("k_proj.weight", "up_proj.weight")
TOKENS = [5, 9, 2, 66, 31, 7]


class ZeroPoints(Seeded):
    """Seeded weights; zero points are around 8, but those of some matrices are all 8."""

    def matrix(self, name: str, rows: int, columns: int) -> Quantised:
        made = super().matrix(name, rows, columns)
        if name.endswith(SYMMETRIC):
            return made
        zeros = np.random.default_rng(rows + columns).integers(5, 12, made.scales.shape, np.uint32)
        return replace(made, zeros=packed_steps(zeros))


@pytest.mark.parametrize(("config", "joined"), [(LLAMA, False), (UNTIED, True)])
def test_a_file_with_zero_points_becomes_a_decoder_with_its_logits(
    config: LanguageConfig, joined: bool, tmp_path: Path
) -> None:
    path = tmp_path / "model.onnx"
    onnx.save(decoder_onnx(config, ZeroPoints(), OnnxForm(joined=joined)), path)
    (plan,) = plan_language_model(path, "zeros", [config.length]).plans
    assert plan_bytes(plan) == plan_bytes(plan_decoder(config, ZeroPoints(), "zeros").plans[0])

    read, weights = read_decoder(path, config.length)
    found, chosen = prompt_logits(decoder_graph(read, weights, block_rows=4), TOKENS)
    right = Reference(config, ZeroPoints()).logits(TOKENS)
    assert np.abs(found - right).max() < 1e-5 * np.abs(right).max()
    assert chosen == right.argmax()

    symmetric = Reference(config, Seeded()).logits(TOKENS)
    assert np.abs(found - symmetric).max() > 0.1 * np.abs(right).max()


def test_the_reference_reads_zero_points_as_the_import_of_networks(tmp_path: Path) -> None:
    """Which is held to onnxruntime's records."""
    path, count = tmp_path / "model.onnx", len(TOKENS)
    onnx.save(decoder_onnx(LLAMA, ZeroPoints()), path)
    graph = import_model(path, {"batch": 1, "sequence": count, "past": 8, "total": 8})
    mask = np.array([[1] * count + [0] * (8 - count)])
    caches = [f"past_key_values.{layer}.{part}" for layer in (0, 1) for part in ("key", "value")]
    feeds = dict.fromkeys(caches, np.zeros((1, 2, 8, 16), np.float32))
    feeds |= {"input_ids": np.array([TOKENS]), "attention_mask": mask}
    found = evaluate(graph, feeds)["logits"].reshape(-1)
    right = Reference(LLAMA, ZeroPoints()).logits(TOKENS)
    assert np.abs(found - right).max() < 1e-5 * np.abs(right).max()


def test_zero_points_of_larger_blocks_are_those_of_each_of_their_parts() -> None:
    random = np.random.default_rng(1)
    packed = random.integers(0, 256, (3, 288), np.uint8)
    scales = random.uniform(0.5, 1.5, (3, 9)).astype(np.float32)
    zeros = random.integers(0, 256, (3, 5), np.uint8)
    made = packed_matrix("b", (packed, scales, zeros.reshape(-1)), (3, 576), 64)
    steps = np.stack([packed & 15, packed >> 4], axis=-1).reshape(3, 576).astype(np.float32)
    points = np.stack([zeros & 15, zeros >> 4], axis=-1).reshape(3, 10)[:, :9]
    right = (steps - np.repeat(points, 64, axis=1)) * np.repeat(scales, 64, axis=1)
    found = made.quantised()
    assert found.told_zeros.shape == (3, 3)
    assert np.array_equal(found.dense, right)
    assert np.array_equal(made.part(1, 3).quantised().dense, right[1:])
    assert not is_same(made, packed_matrix("b", (packed, scales, None), (3, 576), 64))


def test_zero_points_that_are_all_8_are_none() -> None:
    plain = Seeded().matrix("b", 4, 96)
    zeros = zero_points(plain)
    tensors = (plain.words.view(np.uint8), plain.scales, zeros)
    assert packed_matrix("b", tensors, (4, 96), 32).zeros is None
    # The last byte of a row has room for one more.
    assert packed_matrix("b", (*tensors[:2], zeros | 0x70), (4, 96), 32).zeros is not None
    spare = zeros | np.array([0, 0xF0], np.uint8)
    assert packed_matrix("b", (*tensors[:2], spare), (4, 96), 32).zeros is None
