"""Carries a network of ONNX's operators over into a graph of workloads, programs and views."""

from collections.abc import Callable, Iterable

import numpy as np

from kernelzoo.domain.dtype import DType
from kernelzoo.domain.plan import PortDType
from kernelzoo.errors import InvalidInput, UnsupportedModel
from services.tuner.graph.building import Builder, Carried, Operand, Site, graph_dtype, is_real
from services.tuner.graph.graph import Graph, GraphPort, Node, faults
from services.tuner.graph.network import Network, Step, TensorType, unknown_operator
from services.tuner.graph.onnx_operators import OPERATORS


def converted(network: Network) -> Graph:
    """The graph of a network, without outputs that have no entries. Raises UnsupportedModel for an
    operator or a form of one that cannot be carried over."""
    builder = Builder()
    found: dict[str, Operand] = {}
    for name in network.inputs:
        type_ = network.types[name]
        builder.enter(name, graph_dtype(type_), type_.shape)
        found[name] = Operand(name, graph_dtype(type_), type_.shape)

    def operand(name: str) -> Operand:
        if name not in found:
            found[name] = builder.constant(name, network.constants[name])
        return found[name]

    for step in network.steps:
        results = _carried(step, network, operand_of=operand, builder=builder)
        found.update(zip(step.outputs, results, strict=False))
    outputs = tuple(
        GraphPort(name, _port_dtype(network.types[value]), operand(value).name)
        for name, value in network.outputs
        if network.types[value].elements
    )
    if not outputs:
        name, value = network.outputs[0]
        raise UnsupportedModel(
            f"output {name!r} has no entries: its shape is {list(network.types[value].shape)}; "
            "there is nothing to compute"
        )
    inputs = tuple(
        GraphPort(name, _port_dtype(network.types[name]), name) for name in network.inputs
    )
    graph = _without_dead(builder, inputs, outputs)
    wrong = faults(graph)
    if wrong:
        raise UnsupportedModel(f"the import made a wrong graph, which is a fault of it: {wrong[0]}")
    return graph


def _carried(
    step: Step, network: Network, operand_of: Callable[[str], Operand], builder: Builder
) -> tuple[Operand, ...]:
    carry = OPERATORS.get(step.operator)
    if carry is None:
        raise unknown_operator(step)
    _refuse_wide_constants(step, network)
    site = Site(
        step=step,
        inputs=tuple(operand_of(name) if name else None for name in step.inputs),
        outputs=tuple(network.types[name] if name else None for name in step.outputs),
        types=tuple(network.types[name] if name else None for name in step.inputs),
        builder=builder,
    )
    try:
        results = _all_of(carry(site))
    except (ArithmeticError, AssertionError, LookupError, ValueError) as error:
        # Attributes of strangers that ONNX's own checks let through: an axis out of range, a mode
        # that there is not.
        raise InvalidInput(
            f"{step.told} has an attribute or a constant that its operator cannot have; export the "
            "model again"
        ) from error
    results += (None,) * (len(site.outputs) - len(results))
    for result, type_ in zip(results, site.outputs, strict=False):
        if type_ is not None and (result is None or not _fits(result, type_)):
            raise UnsupportedModel(
                f"{step.told} cannot be imported: it would become {_told(result)}, not "
                f"{type_.dtype}{list(type_.shape)}, which is a fault of the import; tell us"
            )
    return results  # type: ignore[return-value]


_COMPUTED_EXACTLY = (
    "Abs", "Add", "BitShift", "BitwiseAnd", "BitwiseNot", "BitwiseOr", "BitwiseXor", "CumSum",
    "Div", "Einsum", "Gemm", "MatMul", "Mod", "Mul", "Neg", "Pow", "ReduceL1", "ReduceL2",
    "ReduceLogSum", "ReduceLogSumExp", "ReduceMean", "ReduceProd", "ReduceSum", "ReduceSumSquare",
    "Sub",
)  # fmt: skip
"""Operators whose result is another one where an operand is not what it was."""


def _refuse_wide_constants(step: Step, network: Network) -> None:
    """Integers have 32 bits here. Constants of more are taken to be the nearest, which is right for
    what they usually are, bounds and marks; what is computed with one would be wrong."""
    if step.operator not in _COMPUTED_EXACTLY:
        return
    for name in step.inputs:
        known = network.constants.get(name)
        if known is None or known.dtype not in (np.int64, np.uint64) or not known.size:
            continue
        least, most = (0, _WORDS - 1) if known.dtype == np.uint64 else DType.I32.value_range
        if known.min() < least or known.max() > most:
            widest = max((int(known.min()), int(known.max())), key=abs)
            raise UnsupportedModel(
                f"{step.told} cannot be imported: it computes with the constant {name!r}, in which "
                f"{widest} stands; integers have 32 bits in a page. Cast its inputs to float, or "
                "do this step in the page"
            )


_WORDS = 1 << 32
"""Numbers of 32 bits."""


def _all_of(carried: Carried) -> tuple[Operand | None, ...]:
    return carried if isinstance(carried, tuple) else (carried,)


def _fits(result: Operand, type_: TensorType) -> bool:
    return (result.dtype, result.shape) == (graph_dtype(type_), type_.shape)


def _told(result: Operand | None) -> str:
    return "nothing" if result is None else f"{result.dtype}{list(result.shape)}"


def _port_dtype(type_: TensorType) -> PortDType:
    """Returns the dtype that a page sees: floats of every size are float32 to it, other integers
    int32."""
    return PortDType.FLOAT32 if is_real(type_.dtype) else _PORTS.get(type_.dtype, PortDType.INT32)


_PORTS = {
    np.dtype(np.bool_): PortDType.BOOL,
    np.dtype(np.uint8): PortDType.UINT8,
    np.dtype(np.uint32): PortDType.UINT32,
    np.dtype(np.uint64): PortDType.UINT32,
    np.dtype(np.int64): PortDType.INT64,
}


def _without_dead(
    builder: Builder, inputs: Iterable[GraphPort], outputs: Iterable[GraphPort]
) -> Graph:
    """The graph of what outputs need, and of the inputs."""
    inputs, outputs = tuple(inputs), tuple(outputs)
    needed = {port.value for port in outputs}
    nodes: list[Node] = []
    for node in reversed(builder.nodes):
        if node.output in needed:
            nodes.append(node)
            needed.update(node.inputs)
    needed |= {port.value for port in inputs}
    return Graph(
        inputs=inputs,
        outputs=outputs,
        values={name: value for name, value in builder.values.items() if name in needed},
        constants={name: c for name, c in builder.constants.items() if name in needed},
        nodes=tuple(reversed(nodes)),
    )
