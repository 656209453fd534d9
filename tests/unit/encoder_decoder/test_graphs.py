"""Models of an encoder and a decoder as graphs: their logits are those of the papers."""

from pathlib import Path

import numpy as np
import pytest

from kernelzoo.domain.operators.quantised import Form
from services.tuner.encoder_decoder.config_file import read_config
from services.tuner.encoder_decoder.decoder import encoder_decoder_graph
from services.tuner.encoder_decoder.planning import text_logits
from services.tuner.encoder_decoder.tensors import safetensors
from services.tuner.graph.graph import faults
from tests.encoder_decoder_folders import CONFIGS, SOURCE_LENGTH, VOCABULARY, write_encoder_decoder
from tests.encoder_decoder_reference import Model

BYTES = Form(width=8)


@pytest.mark.parametrize("family", CONFIGS)
@pytest.mark.parametrize("shorter", [0, 5])
def test_logits_are_those_of_the_paper(tmp_path: Path, family: str, shorter: int) -> None:
    weights = write_encoder_decoder(tmp_path, family)
    config = read_config(tmp_path, 24, SOURCE_LENGTH.get(family, 16))
    made = encoder_decoder_graph(config, safetensors(tmp_path, BYTES))
    assert faults(made.graph) == ()
    graph, random = made.graph, np.random.default_rng(1)
    states = {
        name: np.zeros(
            graph.values[name].shape, "i4" if graph.values[name].dtype == "i32" else "f4"
        )
        for name in graph.states
    }
    text = random.integers(0, VOCABULARY, 7).tolist()
    states["prompt"][: len(text)] = text
    states["position"][1] = len(text)
    if family == "whisper":
        source = states["source"]
        source[...] = random.uniform(-1, 1, source.shape)
    else:
        length = 16 - shorter
        source = random.integers(0, VOCABULARY, length)
        states["source"][:] = 7
        states["source"][:length] = source
        states["spare"][0] = shorter
    right = Model(CONFIGS[family], weights).logits(source, text)
    found = text_logits(made, states)
    assert np.abs(found - right).max() < 2e-4 * np.abs(right).max()
