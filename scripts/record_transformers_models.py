"""Records small language models as transformers saves them, and the logits that it computes:
`python -m scripts.record_transformers_models`, where torch and transformers 5 are installed. Tests
hold the import of folders to it.
"""

from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scripts.seeded_models import TOKENS, seeded_model, transformers

TO = Path(__file__).parents[1] / "fixtures" / "recorded" / "transformers_models.npz"
NAMES = ("gemma2", "gemma3_text", "mistral", "phi3", "qwen3")


def saved(found: Any, name: str, folder: Path) -> NDArray[np.float32]:
    """The logits behind the last token of a model that is saved to a folder."""
    torch = import_module("torch")
    model = seeded_model(found, name)
    with torch.no_grad():
        logits = model(torch.tensor([TOKENS])).logits[0, -1]
    model.save_pretrained(folder)
    last: NDArray[np.float32] = logits.numpy()
    return last


def main() -> None:
    found = transformers()
    arrays: dict[str, NDArray[Any]] = {"tokens": np.array(TOKENS)}
    for name in NAMES:
        with TemporaryDirectory() as folder:
            arrays[f"{name}/logits"] = saved(found, name, Path(folder))
            for file in ("config.json", "model.safetensors"):
                body = Path(folder, file).read_bytes()
                arrays[f"{name}/{file}"] = np.frombuffer(body, np.uint8)
    np.savez_compressed(TO, allow_pickle=False, **arrays)


if __name__ == "__main__":
    main()
