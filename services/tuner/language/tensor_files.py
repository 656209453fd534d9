"""Files of safetensors, which anyone may have written: a head that says where each tensor lies, and
behind it their bytes (https://github.com/huggingface/safetensors#format)."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from kernelzoo.errors import InvalidInput, UnsupportedModel

MAX_HEAD_BYTES = 100_000_000
"""The library of the format has this limit."""
_LENGTH_BYTES = 8
_METADATA = "__metadata__"

_DTYPES: Mapping[str, np.dtype[Any]] = {
    "F32": np.dtype("<f4"),
    "F16": np.dtype("<f2"),
    "BF16": np.dtype("<u2"),
}

Place = Annotated[int, msgspec.Meta(ge=0, lt=1 << 62)]


class _Described(msgspec.Struct, frozen=True):
    """`data_offsets`: where it begins and ends, from the end of the head on."""

    dtype: str
    shape: tuple[Place, ...]
    data_offsets: tuple[Place, Place]


@dataclass(frozen=True, slots=True)
class StoredTensor:
    """A tensor whose bytes, `data`, are mapped into memory."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    data: NDArray[np.uint8]

    def read(self) -> NDArray[np.float32]:
        """Raises UnsupportedModel for a type that no weights have, and InvalidInput where its bytes
        are not those of its shape."""
        dtype = _DTYPES.get(self.dtype)
        if dtype is None:
            raise UnsupportedModel(
                f"{self.name} is {self.dtype[:20]}; weights are {', '.join(_DTYPES)}"
            )
        if self.data.size != prod(self.shape) * dtype.itemsize:
            raise InvalidInput(
                f"{self.name} has {self.data.size} bytes, which are not those of {self.dtype} "
                f"{list(self.shape)}; fetch the file again"
            )
        entries = self.data.view(dtype)
        if self.dtype == "BF16":
            # The upper half of a float32.
            entries = (entries.astype(np.uint32) << np.uint32(16)).view(np.float32)
        return np.asarray(entries, np.float32).reshape(self.shape)


def stored_tensors(path: Path) -> dict[str, StoredTensor]:
    """By their names. Raises InvalidInput for a file that is none of safetensors."""
    try:
        file = np.memmap(path, np.uint8, mode="r")
        head_bytes = int(file[:_LENGTH_BYTES].view("<u8")[0])
        if head_bytes > min(MAX_HEAD_BYTES, file.size - _LENGTH_BYTES):
            raise ValueError(f"its head has {head_bytes} bytes, and the file {file.size}")
        data = file[_LENGTH_BYTES + head_bytes :]
        head = bytes(file[_LENGTH_BYTES : _LENGTH_BYTES + head_bytes])
        described = msgspec.json.decode(head, type=dict[str, msgspec.Raw])
        described.pop(_METADATA, None)
        return {name: _stored(name, each, data) for name, each in described.items()}
    except (OSError, ValueError, IndexError, RecursionError) as error:
        raise InvalidInput(
            f"{path.name} is no file of safetensors, or it was cut off: {error}; fetch it again"
        ) from error


def _stored(name: str, described: msgspec.Raw, data: NDArray[np.uint8]) -> StoredTensor:
    """Raises ValueError for a tensor that lies outside of the file."""
    told = msgspec.json.decode(described, type=_Described)
    first, end = told.data_offsets
    if not first <= end <= data.size:
        raise ValueError(f"{name[:80]!r} lies at {first} to {end} of {data.size} bytes")
    return StoredTensor(name, told.dtype, told.shape, data[first:end])
