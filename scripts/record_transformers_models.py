"""Records small language models as transformers saves them, and the logits that it computes:
`python scripts/record_transformers_models.py`, where torch and transformers 5 are installed. Tests
hold the import of folders to it.

Matrices are what 4 bits can hold, so that quantising them changes nothing.
"""

from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray

from services.tuner.language.quantise import quantised

TO = Path(__file__).parents[1] / "fixtures" / "recorded" / "transformers_models.npz"
TOKENS = (5, 9, 2, 33, 31, 60, 12, 7, 44, 3)
SHAPE = {
    "vocab_size": 64,
    "hidden_size": 32,
    "intermediate_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "max_position_embeddings": 32,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
}
WINDOWED = {"sliding_window": 4, "layer_types": ["sliding_attention", "full_attention"]}
CAPPED = {"attn_logit_softcapping": 1.5, "final_logit_softcapping": 3.0}
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "gemma2": (
        "Gemma2Config",
        {"head_dim": 16, "query_pre_attn_scalar": 24, **WINDOWED, **CAPPED},
    ),
    "gemma3_text": (
        "Gemma3TextConfig",
        {
            "head_dim": 16,
            "query_pre_attn_scalar": 16,
            **WINDOWED,
            "rope_parameters": {
                "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1e6},
                "sliding_attention": {"rope_type": "default", "rope_theta": 1e4},
            },
        },
    ),
    "mistral": ("MistralConfig", {"sliding_window": 4}),
    "phi3": (
        "Phi3Config",
        {"tie_word_embeddings": False, "original_max_position_embeddings": 32},
    ),
    "qwen3": ("Qwen3Config", {"tie_word_embeddings": True, "head_dim": 32}),
}


def saved(found: Any, kind: str, options: dict[str, Any], folder: Path) -> NDArray[np.float32]:
    """A model by a seed in a folder; its logits behind the last token."""
    torch = import_module("torch")
    torch.manual_seed(0)
    config = getattr(found, kind)(**SHAPE, **options)
    config._attn_implementation = "eager"  # noqa: SLF001, which applies caps
    model = found.AutoModelForCausalLM.from_config(config).float()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1:
                torch.nn.init.uniform_(parameter, -0.3, 0.3)
                continue
            torch.nn.init.normal_(parameter, 0, 0.3)
            parameter.copy_(torch.from_numpy(quantised(parameter.numpy()).dense))
        logits = model(torch.tensor([TOKENS])).logits[0, -1]
    model.save_pretrained(folder)
    last: NDArray[np.float32] = logits.numpy()
    return last


def main() -> None:
    import_module("bench.models.networks").torchvision()  # transformers imports it
    found = import_module("transformers")
    arrays: dict[str, NDArray[Any]] = {"tokens": np.array(TOKENS)}
    for name, (kind, options) in MODELS.items():
        with TemporaryDirectory() as folder:
            arrays[f"{name}/logits"] = saved(found, kind, options, Path(folder))
            for file in ("config.json", "model.safetensors"):
                body = Path(folder, file).read_bytes()
                arrays[f"{name}/{file}"] = np.frombuffer(body, np.uint8)
    np.savez_compressed(TO, allow_pickle=False, **arrays)


if __name__ == "__main__":
    main()
