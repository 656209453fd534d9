"""Converts a module of PyTorch by LiteRT's own converter, for LiteRT.js.

It starts from the module, not from the ONNX file, and makes int32 of inputs of int64.
"""

from pathlib import Path

import litert_torch
from torch import Tensor, nn


def write_lite(module: nn.Module, feeds: tuple[Tensor, ...], path: Path) -> None:
    litert_torch.convert(module.eval(), feeds).export(str(path))
