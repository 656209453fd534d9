"""Random weights under which a comparison of outputs says something.

Networks as they are constructed say little: biases are 0, norms do nothing, and activations of a
deep convolutional network vanish, so that its output is its last bias, whatever the image.
Here every layer keeps the variance of what enters it, every bias and norm does something, and the
running statistics of batch norms are those of an input.
"""

import math

import torch
from torch import Tensor, nn

MARGIN = 0.1
"""Outputs of two inputs differ by at least this share of their standard deviation."""

WORDS = 2000
"""Embeddings of as many rows or more are of words, others of positions and segments."""
POSITIONS = 0.3
"""Their standard deviation in that of words, so that the output follows the words."""


class SaysNothing(ValueError):
    """The outputs of a network that would pass a comparison whatever was computed."""


def randomise(network: nn.Module, inputs: tuple[Tensor, ...], generator: torch.Generator) -> None:
    with torch.no_grad():
        for module in network.modules():
            _randomise_one(module, generator)
        _gather_statistics(network, inputs)
    network.eval()


def _randomise_one(module: nn.Module, generator: torch.Generator) -> None:
    """Convolutions get He's scale as what follows them is mostly a rectifier."""

    def normal(tensor: Tensor, std: float, mean: float = 0.0) -> None:
        tensor.copy_(torch.randn(tensor.shape, generator=generator) * std + mean)

    kind = type(module).__name__
    weight: Tensor = getattr(module, "weight", None)
    match module:
        case nn.ConvTranspose2d():
            normal(weight, math.sqrt(2 / module.in_channels))
        case nn.Conv1d() | nn.Conv2d():
            normal(weight, math.sqrt(2 / weight[0].numel()))
        case nn.Linear():
            normal(weight, 1 / math.sqrt(weight.shape[1]))
        case nn.Embedding():
            share = 1.0 if weight.shape[0] >= WORDS else POSITIONS
            normal(weight, share / math.sqrt(weight.shape[1]))
        case nn.BatchNorm2d() | nn.GroupNorm() | nn.InstanceNorm2d() | nn.LayerNorm():
            normal(weight, 0.1, 1.0)
        case _ if kind == "Conv1D":  # of transformers: a linear layer that is transposed
            normal(weight, 1 / math.sqrt(weight.shape[0]))
        case _ if weight is not None and weight.ndim == 1:
            normal(weight, 0.1, 1.0)
    bias = getattr(module, "bias", None)
    if isinstance(bias, Tensor):
        normal(bias, 0.1)
    if kind == "T5Attention":  # does not divide by the root of the head's width
        module.q.weight /= math.sqrt(module.key_value_proj_dim)
    if hasattr(module, "relative_attention_bias"):
        normal(module.relative_attention_bias.weight, 1.0)


def _gather_statistics(network: nn.Module, inputs: tuple[Tensor, ...]) -> None:
    norms = [each for each in network.modules() if isinstance(each, nn.BatchNorm2d)]
    network.eval()
    for norm in norms:
        norm.momentum = 1.0
        norm.train()
    if norms:
        network(*inputs)


def confirm(first: tuple[Tensor, ...], second: tuple[Tensor, ...]) -> None:
    """Raises SaysNothing where outputs vanish, explode or do not depend on the inputs."""
    for one, other in zip(first, second, strict=True):
        spread = float(one.std())
        apart = float((one - other).abs().mean())
        if not math.isfinite(spread) or not 1e-3 < spread < 1e3 or apart < MARGIN * spread:
            raise SaysNothing(f"standard deviation {spread:.3g}, mean difference {apart:.3g}")
