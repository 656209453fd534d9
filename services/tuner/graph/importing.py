"""A file of ONNX as a graph: read, fix shapes, simplify, carry over."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from services.tuner.graph.conversion import converted
from services.tuner.graph.dimensions import NO_CONSTANTS, ConstantValue
from services.tuner.graph.graph import Graph
from services.tuner.graph.indices import allowed_rows
from services.tuner.graph.network import Network
from services.tuner.graph.onnx_operators import OPERATORS
from services.tuner.graph.reading import OnnxModel, read_model
from services.tuner.graph.shapes import fix_shapes
from services.tuner.graph.simplify import simplified


def import_model(
    path: Path,
    dimensions: Mapping[str, int],
    rules: Iterable[str] | None = None,
    constants: Mapping[str, ConstantValue] = NO_CONSTANTS,
) -> Graph:
    """`dimensions` are numbers for those that the model leaves open, by their names. `rules` are
    those of `simplify`; left out, all of them. `constants` are values of inputs that become
    constants, by their names.

    Raises InvalidInput for a file that is no sound model and UnsupportedModel for a model with
    something that cannot be imported.
    """
    return imported(read_model(path), dimensions, rules, constants)


def imported(
    model: OnnxModel,
    dimensions: Mapping[str, int],
    rules: Iterable[str] | None = None,
    constants: Mapping[str, ConstantValue] = NO_CONSTANTS,
) -> Graph:
    return graph_of(fixed_network(model, dimensions, rules, constants))


def fixed_network(
    model: OnnxModel,
    dimensions: Mapping[str, int],
    rules: Iterable[str] | None = None,
    constants: Mapping[str, ConstantValue] = NO_CONSTANTS,
) -> Network:
    """The model in ONNX's operators, with numbers for shapes, simplified. Raises as
    `import_model`."""
    return simplified(fix_shapes(model, dimensions, OPERATORS, constants), rules)


def graph_of(network: Network) -> Graph:
    """The graph of a network, with the rows that its inputs choose."""
    graph = converted(network)
    rows = allowed_rows(graph)
    ports = (replace(port, rows=rows.get(port.name)) for port in graph.inputs)
    return replace(graph, inputs=tuple(ports))
