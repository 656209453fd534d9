"""Weights by the names that the Hugging Face hub has for them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from kernelzoo.domain.operators.quantised import Form
from kernelzoo.errors import InvalidInput, UnsupportedModel
from services.tuner.language.quantise import Quantised, quantised
from services.tuner.language.tensor_files import StoredTensor, stored_tensors

Entries = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class NamedTensors:
    """Tensors that are read when they are asked for. `form` is that of matrices."""

    by_name: Mapping[str, Callable[[], Entries]]
    form: Form

    def __contains__(self, name: str) -> bool:
        return name in self.by_name

    def first(self, names: Sequence[str], shape: tuple[int, ...]) -> Entries:
        """The first of some tensors that there is. Raises UnsupportedModel where there is none,
        and InvalidInput for one of another shape."""
        name = next((each for each in names if each in self.by_name), None)
        if name is None:
            raise UnsupportedModel(
                f"the weights have no {' or '.join(names)}, which config.json asks for"
            )
        entries = self.by_name[name]()
        if entries.shape != shape:
            raise InvalidInput(f"{name} is {list(entries.shape)}; config.json says {list(shape)}")
        return entries

    def vector(self, name: str, entries: int) -> Entries:
        return self.first((name,), (entries,))

    def matrix(self, names: Sequence[str], rows: int, columns: int) -> Quantised:
        return quantised(self.first(names, (rows, columns)), self.form)


def safetensors(folder: Path, form: Form) -> NamedTensors:
    """All `*.safetensors` of a folder. Raises InvalidInput where there is none, or a file that is
    none."""
    files = sorted(folder.glob("*.safetensors"))
    if not files and any(folder.rglob("*.onnx")):
        raise UnsupportedModel(
            f"{folder} has files of ONNX and no *.safetensors; models with an encoder are taken of "
            "safetensors alone: fetch those of the model, which files of ONNX were exported from"
        )
    if not files:
        raise InvalidInput(f"{folder} has no *.safetensors; put the model's weights there")
    stored: dict[str, StoredTensor] = {}
    for path in files:
        stored |= stored_tensors(path)
    return NamedTensors({name: each.read for name, each in stored.items()}, form)
