"""Records small language models as the builder of onnxruntime-genai writes them, and their logits:
`python scripts/record_language_models.py`, where torch, transformers, onnxruntime and
onnxruntime-genai 0.18 are installed. Tests hold the import of such files to it.
"""

from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from services.tuner.language.quantise import quantised

TO = Path(__file__).parents[1] / "fixtures" / "recorded" / "language_models.npz"
TOKENS = (5, 9, 2, 33, 31, 60)
VOCABULARY, LENGTH, KEY_HEADS = 80, 32, 1
"""The builder takes a matrix with as many rows as there are tokens for the head."""
SHAPE = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "num_key_value_heads": KEY_HEADS,
    "max_position_embeddings": LENGTH,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
}
FULL = {
    "sliding_window": None,
    "original_max_position_embeddings": LENGTH,
    "rope_parameters": {"rope_type": "default", "rope_theta": 10_000.0},
}
"""Phi-3's with one table of its rotary embedding."""
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("LlamaConfig", {"tie_word_embeddings": False}),
    "qwen2": ("Qwen2Config", {"tie_word_embeddings": True}),
    "qwen3": ("Qwen3Config", {"tie_word_embeddings": True, "head_dim": 32}),
    "phi3": ("Phi3Config", {"tie_word_embeddings": False, **FULL}),
}


def save(found: Any, kind: str, options: dict[str, Any], folder: Path) -> None:
    """A model by a seed, whose table of tokens 4 bits can hold, with a tokenizer of no words."""
    torch = import_module("torch")
    torch.manual_seed(0)
    config = getattr(found, kind)(**SHAPE, **options)
    model = found.AutoModelForCausalLM.from_config(config).float()
    for parameter in model.parameters():
        if parameter.dim() > 1:
            torch.nn.init.normal_(parameter, 0, 0.12)
        else:
            torch.nn.init.uniform_(parameter, 0.7, 1.3)
    table = model.get_input_embeddings().weight
    with torch.no_grad():
        table.copy_(torch.from_numpy(quantised(table.numpy()).dense))
    model.save_pretrained(folder)
    tokenizers = import_module("tokenizers")
    words = tokenizers.models.WordLevel({f"t{i}": i for i in range(VOCABULARY)})
    made = tokenizers.Tokenizer(words)
    found.PreTrainedTokenizerFast(tokenizer_object=made).save_pretrained(folder)


def built(folder: Path, to: Path) -> onnx.ModelProto:
    """As one file, with products of f32 rather than of 8 bits."""
    builder = import_module("onnxruntime_genai.models.builder")
    asked = ("", str(folder), str(to), "int4", "cpu", str(to / "cache"))
    builder.create_model(*asked, **builder.parse_extra_options(*asked, []))
    model = onnx.load(to / "model.onnx")
    del model.graph.value_info[:]
    for tensor in model.graph.initializer:
        tensor.ClearField("external_data")
        tensor.ClearField("data_location")
    for node in model.graph.node:
        for attribute in node.attribute:
            if attribute.name == "accuracy_level":
                attribute.i = 1
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
    import_module("bench.models.networks").torchvision()  # transformers imports it
    found = import_module("transformers")
    arrays: dict[str, NDArray[Any]] = {"tokens": np.array(TOKENS)}
    for name, (kind, options) in MODELS.items():
        with TemporaryDirectory() as made:
            source, to = Path(made) / "source", Path(made) / "onnx"
            save(found, kind, options, source)
            model = built(source, to).SerializeToString()
        arrays[f"{name}/model"] = np.frombuffer(model, np.uint8)
        arrays[f"{name}/logits"] = logits(model, options.get("head_dim", 16))
    np.savez_compressed(TO, allow_pickle=False, **arrays)


if __name__ == "__main__":
    main()
