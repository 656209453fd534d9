"""Small language models of transformers by a seed, which the scripts beside this one record."""

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from services.tuner.language.quantise import quantised

TOKENS = (5, 9, 2, 33, 31, 60, 12, 7, 44, 3)
VOCABULARY, LENGTH, KEY_HEADS, HEAD_DIM = 80, 32, 1, 16
SHAPE = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "intermediate_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": KEY_HEADS,
    "max_position_embeddings": LENGTH,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
}
WINDOWED = {"sliding_window": 4, "layer_types": ["sliding_attention", "full_attention"]}
CAPPED = {"attn_logit_softcapping": 1.5, "final_logit_softcapping": 3.0}
ROTARIES = {
    "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1e6},
    "sliding_attention": {"rope_type": "default", "rope_theta": 1e4},
}
PLAIN_ROTARY = {"rope_type": "default", "rope_theta": 10_000.0}
MODELS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "gemma": ("GemmaConfig", {"head_dim": HEAD_DIM}),
    "gemma2": (
        "Gemma2Config",
        {"head_dim": HEAD_DIM, "query_pre_attn_scalar": 24, **WINDOWED, **CAPPED},
    ),
    "gemma3_text": (
        "Gemma3TextConfig",
        {
            "head_dim": HEAD_DIM,
            "query_pre_attn_scalar": 16,
            **WINDOWED,
            "rope_parameters": ROTARIES,
        },
    ),
    "llama": ("LlamaConfig", {"tie_word_embeddings": False}),
    "mistral": ("MistralConfig", {"sliding_window": 4}),
    "phi3": (
        "Phi3Config",
        {
            "tie_word_embeddings": False,
            "sliding_window": None,
            "original_max_position_embeddings": LENGTH,
            "rope_parameters": PLAIN_ROTARY,
        },
    ),
    "qwen2": ("Qwen2Config", {"tie_word_embeddings": True}),
    "qwen3": ("Qwen3Config", {"tie_word_embeddings": True, "head_dim": 32}),
}


def transformers() -> Any:
    import_module("bench.models.networks").torchvision()  # transformers imports it
    return import_module("transformers")


def seeded_model(found: Any, name: str) -> Any:
    """One of `MODELS`. Matrices are what 4 bits can hold, so that quantising them changes
    nothing."""
    torch = import_module("torch")
    torch.manual_seed(0)
    kind, options = MODELS[name]
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
    return model
