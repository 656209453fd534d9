"""ONNX's operators as workloads, programs and views: one function an operator, files by family."""

from collections.abc import Callable, Mapping

from services.tuner.graph.building import Carried, Site
from services.tuner.graph.onnx_operators import (
    contraction,
    convolution,
    elementwise,
    hashing,
    indexing,
    inverse_trigonometry,
    matrices,
    movement,
    normalisation,
    pooling,
    quantisation,
    recurrent,
    reduction,
    regions,
    resizing,
    walks,
)

OPERATORS: Mapping[str, Callable[[Site], Carried]] = {
    **elementwise.OPERATORS,
    **reduction.OPERATORS,
    **movement.OPERATORS,
    **contraction.OPERATORS,
    **convolution.OPERATORS,
    **resizing.OPERATORS,
    **normalisation.OPERATORS,
    **hashing.OPERATORS,
    **indexing.OPERATORS,
    **inverse_trigonometry.OPERATORS,
    **matrices.OPERATORS,
    **pooling.OPERATORS,
    **quantisation.OPERATORS,
    **regions.OPERATORS,
    **walks.OPERATORS,
    **recurrent.OPERATORS,
}
