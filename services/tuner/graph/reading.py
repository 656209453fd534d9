"""Reads a file of ONNX, written by anyone, into a model whose structure is sound.

What is checked here needs no operator: the file is whole, names are printable, every tensor has the
entries that its shape promises, external data lies in the model's folder, and every value is made
once and before it is read. Weights in external files are mapped, not read.
"""

from collections import deque
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from google.protobuf.message import DecodeError
from numpy.typing import NDArray
from onnx import (
    AttributeProto,
    FunctionProto,
    GraphProto,
    ModelProto,
    NodeProto,
    TensorProto,
    ValueInfoProto,
    defs,
    helper,
    numpy_helper,
)

from kernelzoo.errors import InvalidInput, UnsupportedModel
from services.tuner.graph.network import PACKED_RANGES
from services.tuner.graph.own_schemas import OWN_DOMAIN

MAX_FILE_BYTES = (1 << 31) - 1
"""A protocol buffer is no larger; weights beyond that lie in external files."""
MAX_WEIGHT_BYTES = 1 << 34
MAX_NODES = 50_000
MAX_NAME = 1024
MAX_DEPTH = 16
"""Graphs within nodes within graphs."""
OPSETS = range(7, defs.onnx_opset_version() + 1)
FIRST_CURRENT_OPSET = 13
"""Operators of older ones are written anew (older_opsets.py)."""
MAIN_DOMAINS = ("", "ai.onnx")

Array = NDArray[Any]

NUMPY_DTYPES: Mapping[int, np.dtype[Any]] = {
    TensorProto.FLOAT: np.dtype(np.float32),
    TensorProto.DOUBLE: np.dtype(np.float64),
    TensorProto.FLOAT16: np.dtype(np.float16),
    TensorProto.BFLOAT16: helper.tensor_dtype_to_np_dtype(TensorProto.BFLOAT16),
    TensorProto.INT8: np.dtype(np.int8),
    TensorProto.INT16: np.dtype(np.int16),
    TensorProto.INT32: np.dtype(np.int32),
    TensorProto.INT64: np.dtype(np.int64),
    TensorProto.UINT8: np.dtype(np.uint8),
    TensorProto.UINT16: np.dtype(np.uint16),
    TensorProto.UINT32: np.dtype(np.uint32),
    TensorProto.UINT64: np.dtype(np.uint64),
    TensorProto.BOOL: np.dtype(np.bool_),
    **{
        packed: helper.tensor_dtype_to_np_dtype(packed)
        for packed in (TensorProto.INT4, TensorProto.UINT4, TensorProto.INT2, TensorProto.UINT2)
    },
}
"""The element types of ONNX that a model may have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OnnxModel:
    """A model as it stands in its file; the graph has no weights, they stand beside it."""

    name: str
    graph: GraphProto
    opsets: Mapping[str, int]
    functions: Mapping[tuple[str, str], FunctionProto]
    weights: Mapping[str, Array]

    @property
    def has_f16_weights(self) -> bool:
        """True if most of its numbers are f16, as converters write them."""
        real = [each for each in self.weights.values() if each.dtype.kind == "f"]
        halves = sum(each.size for each in real if each.dtype == np.float16)
        return 2 * halves > sum(each.size for each in real)


def read_model(path: Path) -> OnnxModel:
    """Raises InvalidInput for a file that is no sound model, UnsupportedModel for a type or a
    version that cannot be imported."""
    proto = _parsed(path)
    graph = proto.graph
    if not graph.node or not graph.output:
        raise InvalidInput(
            f"{path.name} has no nodes or no outputs; is it an ONNX model? Export it again"
        )
    _drop_dead(graph)
    _refuse_names(graph)
    for function in proto.functions:
        _refuse_function_names(function)
    weights = _weights(graph, path.parent)
    # A copy without weights: what is parsed is freed as a whole, and would be held twice.
    del graph.initializer[:]
    light = GraphProto()
    light.CopyFrom(graph)
    return OnnxModel(
        name=path.stem,
        graph=light,
        opsets=_opsets(proto),
        functions={(each.domain, each.name): each for each in proto.functions},
        weights=weights,
    )


def sorted_nodes(
    nodes: Iterable[NodeProto], known: Iterable[str], outside: Container[str] = frozenset()
) -> tuple[NodeProto, ...]:
    """Nodes in an order in which each value is made before it is read; exporters write such a one.

    `known` are the names that are there before, `outside` those of graphs around this one. Raises
    InvalidInput for cycles, for values that are made twice and for values that nothing makes.
    """
    nodes = tuple(nodes)
    ready = set(known) | {""}
    _refuse_made_twice(nodes, ready)
    made = {name for node in nodes for name in node.output}
    missing = [
        {
            name for name in read_names(node)
            if name not in ready and (name in made or name not in outside)
        }
        for node in nodes
    ]  # fmt: skip
    readers: dict[str, list[int]] = {}
    for place, names in enumerate(missing):
        for name in names:
            readers.setdefault(name, []).append(place)
    free = deque(place for place, names in enumerate(missing) if not names)
    done = []
    while free:
        node = nodes[free.popleft()]
        done.append(node)
        for name in node.output:
            for place in readers.get(name, ()):
                missing[place].discard(name)
                if not missing[place]:
                    free.append(place)
    if len(done) < len(nodes):
        raise InvalidInput(_stuck(nodes, missing))
    return tuple(done)


def told_node(node: NodeProto) -> str:
    """A node as the beginning of a sentence."""
    name = node.name or ", ".join(name for name in node.output if name)
    return f"node {name!r} ({node.op_type})"


def entries(tensor: TensorProto, folder: Path | None = None) -> Array:
    """The entries of a tensor. `folder` is where its external data may lie."""
    name = tensor.name
    dtype = numpy_dtype(tensor.data_type, f"tensor {name!r}")
    if min(tensor.dims, default=1) < 0 or prod(tensor.dims) * dtype.itemsize > MAX_WEIGHT_BYTES:
        raise InvalidInput(
            f"tensor {name!r} has the shape {list(tensor.dims)}, which no memory holds; export the "
            "model again"
        )
    if tensor.data_location == TensorProto.EXTERNAL:
        return _external(tensor, dtype, folder)
    try:
        array: Array = numpy_helper.to_array(tensor)
    except (ValueError, TypeError) as error:
        raise InvalidInput(
            f"tensor {name!r} has not the entries that its shape {list(tensor.dims)} promises; the "
            "file is damaged, export it again"
        ) from error
    return array


def numpy_dtype(onnx_type: int, owner: str) -> np.dtype[Any]:
    if onnx_type not in NUMPY_DTYPES:
        known = {number: name for name, number in TensorProto.DataType.items()}
        raise UnsupportedModel(
            f"{owner} has the element type {known.get(onnx_type, onnx_type)}, which cannot be "
            "imported; export the model in float32"
        )
    return NUMPY_DTYPES[onnx_type]


def external_path(folder: Path, location: str, name: str) -> Path:
    """The file of external data. Raises InvalidInput for one outside of the model's folder, by its
    name or through a link, and for one that is missing."""
    root = folder.resolve()
    try:
        path = (root / location).resolve()
        usable = location.isprintable() and path.is_relative_to(root)
        found = usable and path.is_file()
    except (OSError, RuntimeError, ValueError):
        usable = found = False
    if not usable:
        raise InvalidInput(
            f"the external data of tensor {name!r} lies outside of the model's folder, at "
            f"{location[:200]!r}; put it beside the model"
        )
    if not found:
        raise InvalidInput(
            f"the external data of tensor {name!r} is missing: put {location[:200]!r} beside the "
            "model"
        )
    return path


def _parsed(path: Path) -> ModelProto:
    if not path.is_file():
        raise InvalidInput(f"{str(path)!r} is no file; give the path of an ONNX model")
    size = path.stat().st_size
    if size > MAX_FILE_BYTES:
        raise InvalidInput(
            f"{path.name} has {size} bytes, more than an ONNX file can have; export it with "
            "external data"
        )
    try:
        proto: ModelProto = ModelProto.FromString(path.read_bytes())
    except DecodeError as error:
        raise InvalidInput(
            f"{path.name} is no ONNX model, or it was cut off; export or fetch it again"
        ) from error
    return proto


def _opsets(proto: ModelProto) -> dict[str, int]:
    opsets = {each.domain: each.version for each in proto.opset_import}
    if not opsets:
        raise InvalidInput("the model names no opset of ONNX; export it again")
    main = [opsets[domain] for domain in MAIN_DOMAINS if domain in opsets]
    # Where only other domains have a version, onnxruntime takes the newest one of ONNX.
    version = main[0] if main else OPSETS[-1]
    if version not in OPSETS:
        raise UnsupportedModel(
            f"the model is of opset {version}; export it with an opset from {OPSETS[0]} to "
            f"{OPSETS[-1]}"
        )
    return opsets | dict.fromkeys(MAIN_DOMAINS, version)


def _drop_dead(graph: GraphProto) -> None:
    """Removes nodes and weights that no output needs, before anything is asked of them."""
    makers: dict[str, list[int]] = {}
    for place, node in enumerate(graph.node):
        for name in filter(None, node.output):
            makers.setdefault(name, []).append(place)
    needed = {each.name for each in graph.output}
    waiting, alive = list(needed), set[int]()
    while waiting:
        for place in makers.get(waiting.pop(), ()):
            if place not in alive:
                alive.add(place)
                new = set(read_names(graph.node[place])) - needed
                needed |= new
                waiting += new
    _keep(graph.node, [place in alive for place in range(len(graph.node))])
    _keep(graph.initializer, [each.name in needed for each in graph.initializer])
    _keep(
        graph.sparse_initializer, [each.values.name in needed for each in graph.sparse_initializer]
    )


def _keep(parts: Any, kept: Sequence[bool]) -> None:
    for place in reversed(range(len(kept))):
        if not kept[place]:
            del parts[place]


def _refuse_names(graph: GraphProto) -> None:
    """Looks at the graph and at the graphs in its nodes. Raises InvalidInput."""
    seen = 0
    for inner, depth in _graphs(graph, 0):
        seen += len(inner.node)
        if depth > MAX_DEPTH or seen > MAX_NODES:
            raise InvalidInput(
                f"the model has more than {MAX_NODES} nodes or graphs nested deeper than "
                f"{MAX_DEPTH}; export it without unrolled loops"
            )
        for each in (*inner.input, *inner.output, *inner.initializer):
            _refuse_name(each.name)
        _refuse_node_names(inner.node)


def _refuse_function_names(function: FunctionProto) -> None:
    for name in (function.name, *function.input, *function.output):
        _refuse_name(name)
    _refuse_node_names(function.node)


def _refuse_node_names(nodes: Iterable[NodeProto]) -> None:
    for node in nodes:
        if node.domain == OWN_DOMAIN:
            raise InvalidInput(
                f"{told_node(node)} is of the domain {OWN_DOMAIN!r}, which no file may have; "
                "rename it"
            )
        for name in (node.name, node.op_type, node.domain, *node.input, *node.output):
            _refuse_name(name)


def _refuse_name(name: str | bytes) -> None:
    """Refuses a name that is too long or not printable. A name that is no UTF-8 is read as
    bytes."""
    if isinstance(name, bytes) or len(name) > MAX_NAME or not name.isprintable():
        raise InvalidInput(
            f"the name {name[:80]!r} is longer than {MAX_NAME} or has control characters; rename it"
        )


def _graphs(graph: GraphProto, depth: int) -> Iterator[tuple[GraphProto, int]]:
    yield graph, depth
    if depth > MAX_DEPTH:
        return
    for node in graph.node:
        for inner in graphs_of(node):
            yield from _graphs(inner, depth + 1)


def graphs_of(node: NodeProto) -> Iterator[GraphProto]:
    """The graphs that are attributes of a node: the branches of a condition."""
    for attribute in node.attribute:
        if attribute.type == AttributeProto.GRAPH:
            yield attribute.g
        yield from attribute.graphs


def _weights(graph: GraphProto, folder: Path) -> dict[str, Array]:
    if graph.sparse_initializer:
        raise UnsupportedModel("the model has sparse weights; export them dense")
    weights: dict[str, Array] = {}
    total = 0
    for tensor in graph.initializer:
        if tensor.name in weights:
            raise InvalidInput(f"the weight {tensor.name!r} stands twice; export the model again")
        weights[tensor.name] = entries(tensor, folder)
        total += weights[tensor.name].nbytes
        if total > MAX_WEIGHT_BYTES:
            raise InvalidInput(f"the weights have more than {MAX_WEIGHT_BYTES} bytes")
    return weights


def _external(tensor: TensorProto, dtype: np.dtype[Any], folder: Path | None) -> Array:
    """A map of the part of a file beside the model; little-endian, as the format says."""
    told = {each.key: each.value for each in tensor.external_data}
    if folder is None:
        raise UnsupportedModel(f"tensor {tensor.name!r} inside of a node lies in an external file")
    path = external_path(folder, told.get("location", ""), tensor.name)
    shape = tuple(tensor.dims)
    packed = dtype in PACKED_RANGES
    size = prod(shape) * dtype.itemsize
    if packed:
        size = -(-prod(shape) * _bits(dtype) // 8)
    try:
        offset, length = int(told.get("offset", 0)), int(told.get("length", size))
    except ValueError:
        offset = length = -1
    if offset < 0 or length != size or offset + size > path.stat().st_size:
        raise InvalidInput(
            f"tensor {tensor.name!r} needs {size} bytes from offset {told.get('offset', 0)} of "
            f"{path.name}, which has {path.stat().st_size}; fetch the external data again"
        )
    if not size:
        return np.zeros(shape, dtype)
    if not packed:
        return np.memmap(path, dtype, "r", offset, shape)
    raw = np.memmap(path, np.uint8, "r", offset, (size,)).tobytes()
    inside = helper.make_tensor(tensor.name, tensor.data_type, shape, raw, raw=True)
    unpacked: Array = numpy_helper.to_array(inside)
    return unpacked


def _bits(dtype: np.dtype[Any]) -> int:
    """Counts the bits that a packed integer takes in a file."""
    least, most = PACKED_RANGES[dtype]
    return (most - least).bit_length()


def _refuse_made_twice(nodes: Iterable[NodeProto], known: Iterable[str]) -> None:
    made = set(known)
    for node in nodes:
        for name in filter(None, node.output):
            if name in made:
                raise InvalidInput(
                    f"{told_node(node)} makes {name!r}, which is there already; export the model "
                    "again"
                )
            made.add(name)


def read_names(node: NodeProto) -> Iterator[str]:
    """The names that a node reads, with those that its inner graphs read from outside."""
    yield from node.input
    for graph in graphs_of(node):
        yield from _free_names(graph)


def _free_names(graph: GraphProto) -> Iterator[str]:
    own = {each.name for each in (*graph.input, *graph.initializer)}
    own.update(name for node in graph.node for name in node.output)
    reads = (name for node in graph.node for name in read_names(node))
    outputs = (each.name for each in graph.output)
    yield from (name for name in (*reads, *outputs) if name not in own)


def _stuck(nodes: Sequence[NodeProto], missing: Sequence[set[str]]) -> str:
    made = {name for node in nodes for name in node.output}
    for node, names in zip(nodes, missing, strict=True):
        for name in sorted(names - made):
            return f"{told_node(node)} reads {name!r}, which nothing makes; export the model again"
    stuck = next(node for node, names in zip(nodes, missing, strict=True) if names)
    return (
        f"{told_node(stuck)} waits for its own output: the graph has a cycle; export the model "
        "again"
    )


def described(info: ValueInfoProto, kind: str) -> tuple[np.dtype[Any], list[int | str]]:
    """Element type and shape of an input or output; a dimension is a number or, where it is open, a
    name, which is that of its axis if it has none."""
    tensor = info.type.tensor_type
    if info.type.WhichOneof("value") != "tensor_type":
        raise UnsupportedModel(
            f"{kind} {info.name!r} is no tensor; export the model with plain tensors"
        )
    dtype = numpy_dtype(tensor.elem_type, f"{kind} {info.name!r}")
    if not tensor.HasField("shape"):
        raise UnsupportedModel(f"{kind} {info.name!r} has no shape; export the model with one")
    shape = [
        dim.dim_value
        if dim.HasField("dim_value") and dim.dim_value >= 0
        else dim.dim_param or f"{info.name}.{place}"
        for place, dim in enumerate(tensor.shape.dim)
    ]
    return dtype, shape
