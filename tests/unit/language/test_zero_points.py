"""Language models whose weights have 4 or 8 bits, blocks of any size and perhaps zero points, as
files of ONNX have them."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray

from fixtures.language_configs import LLAMA
from fixtures.language_onnx import OnnxForm, decoder_onnx, zero_points
from kernelzoo.domain.operators.quantised import Form
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
from tests.language_steps import prompt_logits

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


class Mixed(Seeded):
    """Mixes forms as onnxruntime-genai does: values and the second product of a gate have 8 bits,
    and the table of tokens smaller blocks."""

    def matrix(self, name: str, rows: int, columns: int) -> Quantised:
        if name.endswith(("v_proj.weight", "down_proj.weight")):
            return Seeded(form=Form(width=8, block=64)).matrix(name, rows, columns)
        if name.endswith("embed_tokens.weight"):
            return Seeded(form=Form(block=16, zeros=True)).matrix(name, rows, columns)
        return super().matrix(name, rows, columns)


FORMS: dict[str, Seeded] = {
    "bytes": Seeded(form=Form(width=8)),
    "bytes with zero points": Seeded(form=Form(width=8, block=64, zeros=True)),
    "small blocks": Seeded(form=Form(block=16, zeros=True)),
    "a block of more than a row": Seeded(form=Form(block=128)),
    "mixed": Mixed(),
}


@pytest.mark.parametrize("name", FORMS)
def test_a_file_of_any_form_becomes_a_decoder_with_its_logits(name: str, tmp_path: Path) -> None:
    """The file's own are those of the import of networks, which is held to onnxruntime's."""
    path, weights = tmp_path / "model.onnx", FORMS[name]
    onnx.save(decoder_onnx(LLAMA, weights), path)
    (plan,) = plan_language_model(path, "forms", [LLAMA.length]).plans
    assert plan_bytes(plan) == plan_bytes(plan_decoder(LLAMA, weights, "forms").plans[0])

    read, held = read_decoder(path, LLAMA.length)
    found, chosen = prompt_logits(decoder_graph(read, held, block_rows=4), TOKENS)
    right = _logits_of_file(path)
    assert np.abs(found - right).max() < 1e-5 * np.abs(right).max()
    assert chosen == right.argmax()
    assert np.abs(Reference(LLAMA, weights).logits(TOKENS) - right).max() < 1e-5


def test_matrices_of_different_forms_are_stacked_exactly() -> None:
    forms = (Form(block=64), Form(width=8, block=128, zeros=True), Form(block=16, zeros=True))
    parts = [Seeded(form=form).matrix("b", rows, 96) for rows, form in enumerate(forms, start=1)]
    made = Quantised.stacked(*parts)
    assert made.form == Form(width=8, block=16, zeros=True)
    assert np.array_equal(made.dense, np.concatenate([each.dense for each in parts]))
    assert Quantised.stacked(parts[0], parts[0]).form == Form(block=64)


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
    path = tmp_path / "model.onnx"
    onnx.save(decoder_onnx(LLAMA, ZeroPoints()), path)
    found = _logits_of_file(path)
    right = Reference(LLAMA, ZeroPoints()).logits(TOKENS)
    assert np.abs(found - right).max() < 1e-5 * np.abs(right).max()


def _logits_of_file(path: Path) -> NDArray[np.float32]:
    """By the import of networks, which is held to onnxruntime's records."""
    count = len(TOKENS)
    graph = import_model(path, {"batch": 1, "sequence": count, "past": 8, "total": 8})
    mask = np.array([[1] * count + [0] * (8 - count)])
    caches = [f"past_key_values.{layer}.{part}" for layer in (0, 1) for part in ("key", "value")]
    feeds = dict.fromkeys(caches, np.zeros((1, 2, 8, 16), np.float32))
    feeds |= {"input_ids": np.array([TOKENS]), "attention_mask": mask}
    return np.asarray(evaluate(graph, feeds)["logits"].reshape(-1), np.float32)


def test_zero_points_of_larger_blocks_are_read_as_they_are() -> None:
    random = np.random.default_rng(1)
    packed = random.integers(0, 256, (3, 288), np.uint8)
    scales = random.uniform(0.5, 1.5, (3, 9)).astype(np.float32)
    zeros = random.integers(0, 256, (3, 5), np.uint8)
    made = packed_matrix("b", (packed, scales, zeros.reshape(-1)), (3, 576), block=64)
    steps = np.stack([packed & 15, packed >> 4], axis=-1).reshape(3, 576).astype(np.float32)
    points = np.stack([zeros & 15, zeros >> 4], axis=-1).reshape(3, 10)[:, :9]
    right = (steps - np.repeat(points, 64, axis=1)) * np.repeat(scales, 64, axis=1)
    found = made.quantised()
    assert found.form == Form(block=64, zeros=True)
    assert np.array_equal(found.dense, right)
    assert np.array_equal(made.part(1, 3).quantised().dense, right[1:])
    assert not is_same(made, packed_matrix("b", (packed, scales, None), (3, 576), block=64))


def test_zero_points_that_are_all_8_are_none() -> None:
    plain = Seeded().matrix("b", 4, 96)
    zeros = zero_points(plain)
    tensors = (plain.words.view(np.uint8), plain.scales, zeros)
    assert packed_matrix("b", tensors, (4, 96)).zeros is None
    # The last byte of a row has room for one more.
    assert packed_matrix("b", (*tensors[:2], zeros | 0x70), (4, 96)).zeros is not None
    spare = zeros | np.array([0, 0xF0], np.uint8)
    assert packed_matrix("b", (*tensors[:2], spare), (4, 96)).zeros is None
