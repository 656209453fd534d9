"""A network's ONNX file and its reference tensors, and how a page is given them."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray

from bench.models.cases import NetworkCase
from bench.models.tensorflow import TensorFlowNetwork, tensorflow_network
from bench.report import CannotMeasure
from bench.site import BenchSite

Tensors = Mapping[str, NDArray[np.generic]]


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkFiles:
    """`outputs` are what PyTorch answers for `inputs`. `tflite` is what LiteRT's converter made of
    the network, where it was asked to; `tensorflow` is its form for TensorFlow.js, if any."""

    case: NetworkCase
    onnx: Path
    tflite: Path | None
    tensorflow: TensorFlowNetwork | None
    inputs: Tensors
    outputs: Tensors


def network_files(folder: Path, case: NetworkCase) -> NetworkFiles:
    """The files of a network. Raises CannotMeasure where `make networks` has not written them."""
    onnx, tensors = folder / f"{case.name}.onnx", folder / f"{case.name}.npz"
    for file in (onnx, tensors):
        if not file.exists():
            raise CannotMeasure(f"{file} is not there; `make networks ARGS={case.name}` writes it")
    tflite = folder / f"{case.name}.tflite"
    with np.load(tensors) as held:
        return NetworkFiles(
            case=case,
            onnx=onnx,
            tflite=tflite if tflite.exists() else None,
            tensorflow=tensorflow_network(onnx),
            inputs=_named(held, "input."),
            outputs=_named(held, "output."),
        )


def publish(
    site: BenchSite, network: NetworkFiles, zoo: str | None, range_: str | None = None
) -> str:
    """The address of the document that a page needs, `Network` in `page/src/models/network.ts`.
    `zoo` is that of the zoo's answer for it, `range_` for a plan of a range that serves it, too."""
    name = network.case.name
    site.lend(f"/networks/{name}.onnx", network.onnx)
    if network.tflite is not None:
        site.lend(f"/networks/{name}.tflite", network.tflite)
    document = {
        "onnx": f"/networks/{name}.onnx",
        "zoo": zoo,
        "range": range_,
        "tflite": f"/networks/{name}.tflite" if network.tflite is not None else None,
        "tensorflow": _tensorflow(site, f"/networks/{name}/tensorflow", network.tensorflow),
        "dimensions": dict(network.case.dimensions),
        "constants": list(network.case.constants),
        "inputs": _published(site, f"/networks/{name}/inputs", network.inputs),
        "outputs": _published(site, f"/networks/{name}/outputs", network.outputs),
    }
    address = f"/networks/{name}.json"
    site.publish(address, json.dumps(document).encode())
    return address


def _tensorflow(
    site: BenchSite, folder: str, network: TensorFlowNetwork | None
) -> dict[str, object] | None:
    if network is None:
        return None
    site.publish(f"{folder}/weights.bin", network.weights.tobytes())
    return {"steps": msgspec.to_builtins(network.steps), "weights": f"{folder}/weights.bin"}


def _named(held: Tensors, prefix: str) -> Tensors:
    names = [name for name in held if name.startswith(prefix)]
    return {name.removeprefix(prefix): held[name] for name in names}


def _published(site: BenchSite, folder: str, tensors: Tensors) -> list[dict[str, object]]:
    listed: list[dict[str, object]] = []
    # Names are what an author chose, and need not fit into an address.
    for number, (name, values) in enumerate(tensors.items()):
        url = f"{folder}/{number}.bin"
        site.publish(url, np.ascontiguousarray(values).tobytes(), at_once=True)
        shape = list(values.shape)
        listed.append({"name": name, "dtype": values.dtype.name, "shape": shape, "url": url})
    return listed
