"""Inputs that say what a network is for: arrays of a file .npz, by the names of its inputs.

They are those of one run, or of several one after the other along an axis before all others.
"""

import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from kernelzoo.domain.plan import PortDType
from kernelzoo.errors import InvalidInput
from services.tuner.graph.graph import Graph, GraphPort

Feeds = Mapping[str, NDArray[Any]]
_UNREADABLE = (
    *(BadZipFile, EOFError, KeyError, MemoryError, OSError, ValueError, zlib.error),
    # One array alone, which is no file of several, and members that are encrypted or packed anew.
    *(TypeError, RuntimeError),
)


def calibration_feeds(path: Path, graph: Graph) -> tuple[Feeds, ...]:
    """The inputs of each run, from an array of the file for each input. Raises InvalidInput, with
    what to write instead, for a file that is none, and for arrays that the inputs cannot be."""
    try:
        with np.load(path, allow_pickle=False) as held:
            arrays = {name: np.asarray(held[name]) for name in held.files}
    except _UNREADABLE as error:
        raise InvalidInput(
            f"{path} cannot be read as arrays of NumPy; write it by numpy.savez({path.name!r}, "
            f"{_wanted(graph)})"
        ) from error
    names = {port.name for port in graph.inputs}
    missing, others = sorted(names - set(arrays)), sorted(set(arrays) - names)
    if missing or others:
        wrong = f"lacks {', '.join(missing)}" if missing else f"has {', '.join(others)}, no input"
        raise InvalidInput(
            f"{path} {wrong}; write it by numpy.savez({path.name!r}, {_wanted(graph)})"
        )
    ranks = {port.name: len(graph.values[port.value].shape) for port in graph.inputs}
    counts = {len(x) for name, x in arrays.items() if x.ndim == ranks[name] + 1}
    if len(counts) > 1 or (counts and any(arrays[each].ndim == ranks[each] for each in ranks)):
        raise InvalidInput(
            f"{path} has inputs of several runs for some arrays and of another number for others; "
            "give each array as many runs along its first axis"
        )
    if 0 in counts:
        raise InvalidInput(f"{path} has inputs of no run; give some along the first axis")
    fed = {port.name: _fed(path, port, arrays[port.name], graph) for port in graph.inputs}
    if not counts:
        return (fed,)
    return tuple({name: x[run] for name, x in fed.items()} for run in range(counts.pop()))


def _wanted(graph: Graph) -> str:
    return ", ".join(f"{port.name}=…" for port in graph.inputs)


def _fed(path: Path, port: GraphPort, array: NDArray[Any], graph: Graph) -> NDArray[Any]:
    shape = graph.values[port.value].shape
    runs = array.shape[: -len(shape)] if array.ndim == len(shape) + 1 and shape else ()
    if array.shape != (*runs, *shape):
        raise InvalidInput(
            f"{port.name} in {path} has the shape {list(array.shape)}, but the model takes "
            f"{list(shape)}; give inputs of that shape, or other extents by --dim"
        )
    real = port.dtype is PortDType.FLOAT32
    if array.dtype.kind not in ("f" if real else "biu"):
        kind = "real numbers" if real else "integers"
        raise InvalidInput(f"{port.name} in {path} is of {array.dtype}; the model takes {kind}")
    with np.errstate(over="ignore"):
        held = array.astype(np.float32) if real else array
    if real and not np.isfinite(held).all():
        raise InvalidInput(
            f"{port.name} in {path} has infinities in f32, or what is no number; ranges cannot be "
            "told from these"
        )
    if port.rows is not None and array.size:
        _refuse_rows(path, port.name, array, port.rows)
    return array


def _refuse_rows(path: Path, name: str, array: NDArray[Any], rows: tuple[int, int]) -> None:
    """Raises InvalidInput for indices of which the model would take the nearest row."""
    least, most = rows
    beyond = array[(array < least) | (array > most)]
    if beyond.size:
        raise InvalidInput(
            f"{name} in {path} has {int(beyond.flat[0])}, but the model has rows for {least} to "
            f"{most} alone; make the tokens with the vocabulary of this model"
        )
