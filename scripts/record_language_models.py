"""Records small language models as the builder of onnxruntime-genai writes them, and their logits:
`python -m scripts.record_language_models`, where torch, transformers, onnxruntime and
onnxruntime-genai 0.18 are installed. Tests hold the import of such files to it.
"""

from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from scripts.seeded_models import (
    HEAD_DIM,
    KEY_HEADS,
    MODELS,
    ROTARIES,
    TOKENS,
    VOCABULARY,
    seeded_model,
    transformers,
)

TO = Path(__file__).parents[1] / "fixtures" / "recorded" / "language_models.npz"
INSTEAD = {"accuracy_level": 1, "sliding_window_cache": 0}
"""Products of f32 rather than of 8 bits, and caches that are as long as the text."""


def save(found: Any, name: str, folder: Path) -> None:
    """A model with a tokenizer of no words."""
    seeded_model(found, name).save_pretrained(folder)
    tokenizers = import_module("tokenizers")
    words = tokenizers.models.WordLevel({f"t{i}": i for i in range(VOCABULARY)})
    made = tokenizers.Tokenizer(words)
    found.PreTrainedTokenizerFast(tokenizer_object=made).save_pretrained(folder)


def tell_rotaries(builder: Any) -> None:
    """The builder reads those of a Gemma 3 where transformers 4 had them."""
    made = builder.Gemma3Model.__init__

    def init(self: Any, config: Any, *rest: Any) -> None:
        config.rope_local_base_freq = ROTARIES["sliding_attention"]["rope_theta"]
        config.rope_parameters = ROTARIES["full_attention"]
        made(self, config, *rest)

    builder.Gemma3Model.__init__ = init


def built(builder: Any, folder: Path, to: Path) -> onnx.ModelProto:
    """Builds a model as one file."""
    asked = ("", str(folder), str(to), "int4", "cpu", str(to / "cache"))
    builder.create_model(*asked, **builder.parse_extra_options(*asked, []))
    model = onnx.load(to / "model.onnx")
    del model.graph.value_info[:]
    for tensor in model.graph.initializer:
        tensor.ClearField("external_data")
        tensor.ClearField("data_location")
    for node in model.graph.node:
        for attribute in node.attribute:
            if attribute.name in INSTEAD:
                attribute.i = INSTEAD[attribute.name]
    return model


def logits(model: bytes, head_dim: int) -> NDArray[np.float32]:
    """Behind the last token."""
    session = import_module("onnxruntime").InferenceSession(model)
    cache = np.zeros((1, KEY_HEADS, 0, head_dim), np.float32)
    fixed = {
        "input_ids": np.array([TOKENS]),
        "attention_mask": np.ones((1, len(TOKENS)), np.int64),
        "position_ids": np.arange(len(TOKENS))[None],
    }
    feeds = {each.name: fixed.get(each.name, cache) for each in session.get_inputs()}
    (found,) = session.run(["logits"], feeds)
    last: NDArray[np.float32] = found[0, -1]
    return last


def main() -> None:
    found = transformers()
    builder = import_module("onnxruntime_genai.models.builder")
    tell_rotaries(builder)
    arrays: dict[str, NDArray[Any]] = {"tokens": np.array(TOKENS)}
    for name, (_, options) in MODELS.items():
        with TemporaryDirectory() as made:
            source, to = Path(made) / "source", Path(made) / "onnx"
            save(found, name, source)
            model = built(builder, source, to).SerializeToString()
        arrays[f"{name}/model"] = np.frombuffer(model, np.uint8)
        arrays[f"{name}/logits"] = logits(model, options.get("head_dim", HEAD_DIM))
    np.savez_compressed(TO, allow_pickle=False, **arrays)


if __name__ == "__main__":
    main()
