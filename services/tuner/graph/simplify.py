"""Rules that make a network of ONNX's operators smaller. Each has a switch by its name.

What needs the place of every entry, such as merging chains, norms and layouts, is done on the graph
later; what is done here needs the operators of ONNX and the values of constants.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from services.tuner.graph.network import Array, Network, Step

Rule = Callable[[Network], Network]


def simplified(network: Network, rules: Iterable[str] | None = None) -> Network:
    """`rules` are names of RULES; left out, all are applied, in their order."""
    chosen = RULES if rules is None else {name: RULES[name] for name in RULES if name in set(rules)}
    for rule in chosen.values():
        network = rule(network)
    return network


def without_neutral_steps(network: Network) -> Network:
    """x + 0, x - 0, x · 1, x / 1, x¹, a cast to its own type, and choices that are made: each is
    its operand, if that has the shape and type of the result."""

    def operand(step: Step) -> str | None:
        match step.operator, step.inputs:
            case ("Add", (x, c)) if _all(network, c, 0):
                return x
            case ("Add", (c, x)) if _all(network, c, 0):
                return x
            case ("Mul", (x, c)) if _all(network, c, 1):
                return x
            case ("Mul", (c, x)) if _all(network, c, 1):
                return x
            case ("Sub", (x, c)) if _all(network, c, 0):
                return x
            case ("Div" | "Pow", (x, c)) if _all(network, c, 1):
                return x
            case ("And", (x, c)) | ("And", (c, x)) if _all(network, c, 1):
                return x
            case ("Or", (x, c)) | ("Or", (c, x)) if _all(network, c, 0):
                return x
            case ("Where", (c, x, _)) if _all(network, c, 1):
                return x
            case ("Where", (c, _, y)) if _all(network, c, 0):
                return y
            case ("Identity" | "Cast" | "Expand" | "Reshape" | "Tile", (x, *_)):
                return x
        return None

    def same(step: Step) -> str | None:
        found = operand(step)
        if found is not None and network.types[found] == network.types[step.outputs[0]]:
            return found
        return None

    return _with_names(network, same)


def without_index_wraps(network: Network) -> Network:
    """where(i < 0, i + n, i) as an index of an axis of n is i: a gather counts negative ones from
    the end."""
    makers = network.makers

    def wrapped(name: str, extents: tuple[int, ...]) -> str:
        match makers.get(name):
            case Step(operator="Where", inputs=(below, added, index)):
                pass
            case _:
                return name
        match makers.get(below), makers.get(added):
            case (
                Step(operator="Less", inputs=(left, zero)),
                Step(operator="Add", inputs=operands),
            ) if left == index and index in operands and _all(network, zero, 0):
                count = operands[operands[0] == index]
                if _all(network, count, extents[0]) and len(set(extents)) == 1:
                    return index
        return name

    def changed(step: Step) -> Step:
        if step.operator not in ("Gather", "GatherElements", "GatherND"):
            return step
        data, index, *rest = step.inputs
        shape = network.types[data].shape
        if step.operator == "GatherND":
            first: Any = step.attributes.get("batch_dims", 0)
            extents = shape[first : first + network.types[index].shape[-1]]
        else:
            axis: Any = step.attributes.get("axis", 0)
            extents = (shape[axis],)
        return replace(step, inputs=(data, wrapped(index, extents), *rest))

    return replace(network, steps=tuple(map(changed, network.steps)))


def with_softmax(network: Network) -> Network:
    """exp(x − max x) / Σ exp(x − max x) along one axis is Softmax."""
    makers = network.makers

    def named(step: Step) -> Step:
        if step.operator != "Div":
            return step
        power, total = (makers.get(name) for name in step.inputs)
        if power is None or total is None or power.operator != "Exp":
            return step
        summed = _reduced_axis(network, total, "ReduceSum")
        difference = makers.get(power.inputs[0])
        if summed is None or total.inputs[0] != step.inputs[0] or difference is None:
            return step
        if difference.operator != "Sub":
            return step
        x, most = difference.inputs
        largest = makers.get(most)
        if largest is None or largest.inputs[0] != x:
            return step
        if _reduced_axis(network, largest, "ReduceMax") != summed:
            return step
        return replace(step, operator="Softmax", inputs=(x,), attributes={"axis": summed})

    return replace(network, steps=tuple(map(named, network.steps)))


def without_expansion(network: Network) -> Network:
    """Operators that broadcast read what was expanded for them as it was, where their result keeps
    its shape."""
    makers = network.makers

    def source(name: str) -> str:
        maker = makers.get(name)
        return maker.inputs[0] if maker is not None and maker.operator == "Expand" else name

    def changed(step: Step) -> Step:
        if step.operator not in _BROADCASTING:
            return step
        inputs = tuple(map(source, step.inputs))
        shapes = (network.types[name].shape for name in inputs)
        made = network.types[step.outputs[0]].shape
        return replace(step, inputs=inputs) if np.broadcast_shapes(*shapes) == made else step

    return replace(network, steps=tuple(map(changed, network.steps)))


def with_chosen_rows(network: Network) -> Network:
    """A product of rows with a single one and of a matrix chooses rows of that:

        hot = Cast(Equal(x, [0, 1, … n − 1]))       x[…, 1]
        y = MatMul(hot, w)                     →    y = ChosenRows(x, w)

    Where x is no row of w, the entries are 0. A weight that is no number stays in a product, as 0
    times it is none."""
    makers = network.makers

    def chosen(step: Step) -> Step:
        if step.operator != "MatMul":
            return step
        hot, weights = step.inputs
        w, maker = network.constants.get(weights), makers.get(hot)
        if w is None or w.ndim != 2 or w.dtype.kind != "f" or not np.isfinite(w).all():
            return step
        if maker is not None and maker.operator == "Cast":
            maker = makers.get(maker.inputs[0])
        if maker is None or maker.operator != "Equal":
            return step
        for x, places in (maker.inputs, maker.inputs[::-1]):
            type_ = network.types[x]
            single = type_.shape == (*network.types[hot].shape[:-1], 1)
            if single and type_.dtype.kind in "iu" and _counts_up(network, places, len(w)):
                return replace(step, operator="ChosenRows", inputs=(x, weights))
        return step

    return replace(network, steps=tuple(map(chosen, network.steps)))


def _counts_up(network: Network, name: str, count: int) -> bool:
    """Returns whether a value is known to count from 0 along its last axis, and has no other."""
    known = network.constants.get(name)
    return (
        known is not None
        and known.size == known.shape[-1] == count
        and bool(np.array_equal(known.reshape(-1), np.arange(count)))
    )


def without_equal_steps(network: Network) -> Network:
    """One is left of steps that compute the same, and of equal constants."""
    renamed = _equal_constants(network.constants)
    known: dict[Any, Step] = {}
    steps = []
    for step in _renamed(network.steps, renamed):
        same = known.setdefault(_identity(step), step)
        if same is step:
            steps.append(step)
        else:
            renamed.update(zip(step.outputs, same.outputs, strict=True))
    outputs = tuple((name, renamed.get(value, value)) for name, value in network.outputs)
    return replace(network, steps=tuple(steps), outputs=outputs)


LEAVING_OUT = frozenset({"GRU", "LSTM", "RNN"})
"""Operators that make any of their outputs without the others."""


def without_dead_steps(network: Network) -> Network:
    """Removes what no output needs, and outputs that recurrent layers are asked for in vain."""
    needed = {value for _, value in network.outputs}
    steps: list[Step] = []
    for step in reversed(network.steps):
        if needed.intersection(filter(None, step.outputs)):
            if step.operator in LEAVING_OUT:
                asked = (name if name in needed else "" for name in step.outputs)
                step = replace(step, outputs=tuple(asked))  # noqa: PLW2901
            steps.append(step)
            needed.update(step.inputs)
    needed.update(network.inputs)
    kept = needed.union(*(step.outputs for step in steps))
    return replace(
        network,
        steps=tuple(reversed(steps)),
        types={name: type_ for name, type_ in network.types.items() if name in kept},
        constants={name: value for name, value in network.constants.items() if name in needed},
    )


RULES: Mapping[str, Rule] = {
    "neutral": without_neutral_steps,
    "expansion": without_expansion,
    "index-wraps": without_index_wraps,
    "softmax": with_softmax,
    "chosen-rows": with_chosen_rows,
    "equal": without_equal_steps,
    "dead": without_dead_steps,
}
"""Neutral steps first, so that they hide no pattern; the last two clean up after the others."""

_COMPARED = 256
"""Entries of a constant by which others like it are found."""
_BROADCASTING = (
    "Add", "And", "Div", "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Max", "Min",
    "Mul", "Or", "Pow", "Sub", "Where", "Xor",
)  # fmt: skip


def _all(network: Network, name: str, number: float) -> bool:
    """Returns whether a value is known to be one number everywhere."""
    known = network.constants.get(name)
    return known is not None and known.size > 0 and bool(np.all(known == number))


def _reduced_axis(network: Network, step: Step, operator: str) -> int | None:
    """The one axis that a step reduces and keeps, counted from the front."""
    if step.operator != operator or not step.attributes.get("keepdims", 1):
        return None
    axes: Any = step.attributes.get("axes")
    if len(step.inputs) > 1 and step.inputs[1]:
        told = network.constants.get(step.inputs[1])
        axes = None if told is None else tuple(told.reshape(-1))
    if not isinstance(axes, tuple) or len(axes) != 1:
        return None
    return int(axes[0]) % len(network.types[step.inputs[0]].shape)


def _with_names(network: Network, same: Callable[[Step], str | None]) -> Network:
    """Steps that are `same` as a value go, and the value takes their place."""
    renamed: dict[str, str] = {}
    steps = []
    for step in _renamed(network.steps, renamed):
        found = same(step)
        if found is None:
            steps.append(step)
        else:
            renamed[step.outputs[0]] = found
    outputs = tuple((name, renamed.get(value, value)) for name, value in network.outputs)
    return replace(network, steps=tuple(steps), outputs=outputs)


def _renamed(steps: Iterable[Step], names: Mapping[str, str]) -> Iterator[Step]:
    """Steps with the names of inputs that `names` has by then."""
    for step in steps:
        yield replace(step, inputs=tuple(names.get(name, name) for name in step.inputs))


def _equal_constants(constants: Mapping[str, Array]) -> dict[str, str]:
    """The first constant that is equal, by the name of each. Large ones are compared only where
    some of their entries are the same."""
    first: dict[Any, list[str]] = {}
    renamed: dict[str, str] = {}
    for name, value in constants.items():
        some = value.reshape(-1)[:: max(1, value.size // _COMPARED)]
        alike = first.setdefault((value.dtype.str, value.shape, some.tobytes()), [])
        same = (
            other for other in alike
            if value.size <= _COMPARED or np.array_equal(value, constants[other])
        )  # fmt: skip
        renamed[name] = next(same, name)
        if renamed[name] == name:
            alike.append(name)
    return renamed


def _identity(step: Step) -> Any:
    """Equal for steps that compute the same."""
    attributes = tuple(
        (name, value.tobytes() if isinstance(value, np.ndarray) else value)
        for name, value in sorted(step.attributes.items())
    )
    given = tuple(bool(name) for name in step.outputs)
    return step.operator, step.version, step.inputs, given, attributes
