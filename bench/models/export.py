"""Writes networks with random weights as ONNX: `python -m bench.models.export FOLDER [NAME ...]`.

Needs the dependency group `models`. Beside NAME.onnx it writes NAME.npz: `input.X` and `output.Y`
are what torch read and answered; and NAME.tflite of those that LiteRT.js runs beside us.
"""

import sys
from argparse import ArgumentParser
from pathlib import Path
from time import perf_counter

import numpy as np
import torch
from torch import Tensor, nn

from bench.models.lite import write_lite
from bench.models.networks import NETWORKS, ExportedNetwork, Inputs
from bench.models.parts import PARTS
from bench.models.weights import confirm, randomise

SEED = 17
LEGACY_OPSET = 17
DYNAMO_OPSET = 20


def main() -> None:
    networks = (*NETWORKS, *PARTS)
    names = [network.name for network in networks]
    options = ArgumentParser(description=__doc__)
    options.add_argument("folder", type=Path)
    options.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(names)}")
    chosen = options.parse_args()
    unknown = set(chosen.names) - set(names)
    if unknown:
        sys.exit(f"no such network: {', '.join(sorted(unknown))}; there are {', '.join(names)}")
    chosen.folder.mkdir(parents=True, exist_ok=True)
    for network in networks:
        if network.name in (chosen.names or names):
            write(network, chosen.folder)


def write(network: ExportedNetwork, folder: Path) -> None:
    started = perf_counter()
    torch.manual_seed(SEED)
    generator = torch.Generator().manual_seed(SEED)
    module = network.build()
    inputs, others = network.inputs(generator), network.inputs(generator)
    randomise(module, tuple(inputs.values()), generator)
    outputs = _run(module, inputs)
    confirm(outputs, _run(module, others))
    path = folder / f"{network.name}.onnx"
    _export(network, module, inputs, path)
    named = dict(zip(network.outputs, outputs, strict=True))
    arrays = {f"input.{name}": tensor.numpy() for name, tensor in inputs.items()}
    arrays |= {f"output.{name}": tensor.numpy() for name, tensor in named.items()}
    if network.lite:
        write_lite(module, tuple(inputs.values()), folder / f"{network.name}.tflite")
    np.savez(folder / f"{network.name}.npz", **arrays)
    size = path.stat().st_size / 1e6
    print(f"{path}: {size:.1f} MB, {perf_counter() - started:.0f} s", flush=True)


def _run(module: nn.Module, inputs: Inputs) -> tuple[Tensor, ...]:
    with torch.no_grad():
        found = module(*inputs.values())
    return found if isinstance(found, tuple) else (found,)


def _export(network: ExportedNetwork, module: nn.Module, inputs: Inputs, path: Path) -> None:
    names = list(inputs)
    shared = {"input_names": names, "output_names": list(network.outputs)}
    feeds = tuple(inputs.values())
    if not network.dynamo:
        axes = {name: dict(each) for name, each in network.axes.items()}
        torch.onnx.export(
            module,
            feeds,
            path,
            dynamo=False,
            opset_version=LEGACY_OPSET,
            dynamic_axes=axes,
            **shared,
        )
        return
    open_axes = [network.axes.get(name, {}) for name in names]
    dims = {axis: torch.export.Dim(axis) for each in open_axes for axis in each.values()}
    shapes = tuple({at: dims[axis] for at, axis in each.items()} for each in open_axes)
    # What has one entry in the example has one entry for ever.
    doubled = tuple(torch.cat((feed, feed)) for feed in feeds)
    torch.onnx.export(
        module,
        doubled,
        path,
        dynamo=True,
        opset_version=DYNAMO_OPSET,
        dynamic_shapes=(shapes,) if _takes_many(module) else shapes,
        external_data=network.external_data,
        optimize=True,
        verbose=False,
        **shared,
    )


def _takes_many(module: nn.Module) -> bool:
    """Returns whether the module's `forward` takes `*tensors`, whose shapes come as one tuple."""
    return type(module).__name__ == "Picked"


if __name__ == "__main__":
    main()
