"""The weights of a language model by the names that the Hugging Face hub has for them: from files
of safetensors, or by a seed."""

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from kernelzoo.domain.operators.quantised import USUAL_FORM, WORD_BITS, Form
from kernelzoo.errors import InvalidInput, UnsupportedModel
from services.tuner.language.config import LanguageConfig
from services.tuner.language.quantise import Quantised, packed_steps, quantised
from services.tuner.language.rotation import Table, rotation
from services.tuner.language.tensor_files import StoredTensor, stored_tensors


class Checkpoint(Protocol):
    def matrix(self, name: str, rows: int, columns: int) -> Quantised: ...

    def vector(self, name: str, entries: int) -> NDArray[np.float32]: ...

    def rotation(self, config: LanguageConfig, *, windowed: bool = False) -> tuple[Table, Table]:
        """Returns the tables that `rotation` makes, unless the weights have their own."""
        ...


class Safetensors:
    """All `*.safetensors` of a folder, whose matrices are quantised to a form. Raises InvalidInput
    for a file that is none."""

    def __init__(self, folder: Path, config: LanguageConfig, form: Form = USUAL_FORM) -> None:
        self._form = form
        self._joined = _joined(config) if config.joined else {}
        self._gamma_offset = np.float32(config.gamma_offset)
        self._stored: dict[str, StoredTensor] = {}
        for path in sorted(folder.glob("*.safetensors")):
            self._stored |= stored_tensors(path)
        if not self._stored:
            raise InvalidInput(f"{folder} has no *.safetensors; put the model's weights there")

    def matrix(self, name: str, rows: int, columns: int) -> Quantised:
        for part, (joined, first, all_rows) in self._joined.items():
            if name.endswith(part):
                whole = self._read(name.removesuffix(part) + joined, (all_rows, columns))
                return quantised(whole[first : first + rows], self._form)
        return quantised(self._read(name, (rows, columns)), self._form)

    def vector(self, name: str, entries: int) -> NDArray[np.float32]:
        found = self._read(name, (entries,))
        return found + self._gamma_offset if name.endswith("norm.weight") else found

    def rotation(self, config: LanguageConfig, *, windowed: bool = False) -> tuple[Table, Table]:
        return rotation(config, windowed=windowed)

    def _read(self, name: str, shape: tuple[int, ...]) -> NDArray[np.float32]:
        stored = self._stored.get(name)
        if stored is None:
            raise UnsupportedModel(f"the weights have no {name}, which config.json asks for")
        if stored.shape != shape:
            raise InvalidInput(f"{name} is {list(stored.shape)}; config.json says {list(shape)}")
        return stored.read()


def _joined(config: LanguageConfig) -> Mapping[str, tuple[str, int, int]]:
    """By the end of a name, the matrix that it is a part of, its first row there and all rows."""
    queries, keys, hidden = (
        config.heads * config.head_dim,
        config.kv_heads * config.head_dim,
        config.hidden,
    )
    projected, gated = "self_attn.qkv_proj.weight", "mlp.gate_up_proj.weight"
    return {
        "self_attn.q_proj.weight": (projected, 0, config.projected),
        "self_attn.k_proj.weight": (projected, queries, config.projected),
        "self_attn.v_proj.weight": (projected, queries + keys, config.projected),
        "mlp.gate_proj.weight": (gated, 0, 2 * hidden),
        "mlp.up_proj.weight": (gated, hidden, 2 * hidden),
    }


_DEVIATION = {4: 4.3, 8: 73.6}
"""Standard deviation of steps from 1 on, all equally likely, by their bits."""


@dataclass(frozen=True, slots=True)
class Seeded:
    """Weights that a seed and their names give, with zero points around the middle where `form` has
    them: no step is 0 and none is likelier, and scales keep the entries of a layer near 1."""

    seed: int = 0
    form: Form = USUAL_FORM

    def matrix(self, name: str, rows: int, columns: int) -> Quantised:
        random, form = self._random(name), self.form
        words = random.integers(0, 1 << 32, (rows, columns // form.per_word), np.uint32)
        # A step of 0 becomes the middle, so that q - middle has the mean 0.
        used = words
        for bit in range(1, form.width):
            used = used | (words >> np.uint32(bit))
        lowest = np.uint32(sum(1 << at for at in range(0, WORD_BITS, form.width)))
        words = (words | ((~used & lowest) << np.uint32(form.width - 1))).view(np.int32)
        spread = np.float32(1 / (_DEVIATION[form.width] * np.sqrt(columns)))
        scales = random.uniform(0.5, 1.5, (rows, form.blocks(columns))).astype(np.float32)
        zeros = None
        if form.zeros:
            near = form.middle // 3
            around = random.integers(-near, near + 1, scales.shape) + form.middle
            zeros = packed_steps(around, form.width)
        return Quantised(words, scales * spread, zeros, form.width, form.block)

    def vector(self, name: str, entries: int) -> NDArray[np.float32]:
        centre, spread = (0.0, 0.125) if name.endswith("bias") else (1.0, 0.25)
        random = self._random(name)
        return random.uniform(centre - spread, centre + spread, entries).astype(np.float32)

    def rotation(self, config: LanguageConfig, *, windowed: bool = False) -> tuple[Table, Table]:
        return rotation(config, windowed=windowed)

    def _random(self, name: str) -> np.random.Generator:
        digest = sha256(f"{self.seed} {name}".encode()).digest()
        return np.random.default_rng(int.from_bytes(digest[:8], "little"))
