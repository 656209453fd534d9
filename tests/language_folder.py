"""A folder of a language model as the Hugging Face hub has it, of random weights."""

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

CONFIG: dict[str, Any] = {
    "model_type": "qwen3",
    "vocab_size": 70,
    "hidden_size": 32,
    "num_hidden_layers": 1,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "intermediate_size": 64,
    "max_position_embeddings": 64,
    "rope_theta": 10_000.0,
    "eos_token_id": [2, 3],
    "tie_word_embeddings": True,
}


def write_folder(folder: Path, *, joined: bool = False) -> dict[str, NDArray[np.float32]]:
    """A model whose matrices are bfloat16, as most are; those that read one row may be joined, as
    Phi-3 has them."""
    random = np.random.default_rng(3)
    shapes = {"model.embed_tokens.weight": (70, 32), "model.norm.weight": (32,)}
    layer = {"q": (64, 32), "k": (32, 32), "v": (32, 32), "o": (32, 64)}
    shapes |= {f"model.layers.0.self_attn.{n}_proj.weight": each for n, each in layer.items()}
    mlp = {"gate": (64, 32), "up": (64, 32), "down": (32, 64)}
    shapes |= {f"model.layers.0.mlp.{n}_proj.weight": each for n, each in mlp.items()}
    shapes |= {f"model.layers.0.self_attn.{n}_norm.weight": (16,) for n in "qk"}
    shapes |= {f"model.layers.0.{n}_layernorm.weight": (32,) for n in ("input", "post_attention")}
    halves = {
        name: random.standard_normal(shape, np.float32).view(np.uint32) >> 16
        for name, shape in shapes.items()
    }
    made = {name: (half << 16).view(np.float32) for name, half in halves.items()}
    if joined:
        for parts, matrix in (("q k v", "self_attn.qkv_proj"), ("gate up", "mlp.gate_up_proj")):
            prefix = "model.layers.0." + matrix.partition(".")[0]
            names = [f"{prefix}.{part}_proj.weight" for part in parts.split()]
            rows = np.concatenate([halves.pop(name) for name in names])
            halves[f"model.layers.0.{matrix}.weight"] = rows
    head: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    body = b""
    for name, half in halves.items():
        data = half.astype("<u2").tobytes()
        offsets = [len(body), len(body) + len(data)]
        head[name] = {"dtype": "BF16", "shape": half.shape, "data_offsets": offsets}
        body += data
    (folder / "model.safetensors").write_bytes(safetensors(head, body))
    kind = {"model_type": "phi3"} if joined else {}
    (folder / "config.json").write_text(json.dumps(CONFIG | kind))
    return made


def safetensors(head: Any, body: bytes) -> bytes:
    """The bytes of a file."""
    text = json.dumps(head).encode()
    return struct.pack("<Q", len(text)) + text + body
