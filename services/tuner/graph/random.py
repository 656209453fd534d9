"""Random numbers: functions of a seed, which a plan has as an input.

A page has no hidden state, so that the same seed gives the same numbers, on every target. The
number of an entry is a hash of its place, of its node and of the seed (`RandomUnits`).
"""

from collections.abc import Callable, Mapping, Sequence
from math import pi, prod

import numpy as np

from services.tuner.graph.functions import Body
from services.tuner.graph.own_schemas import OWN_DOMAIN

STREAM = "stream"
"""The attribute that tells nodes of a model apart; the last input of each is the seed."""
APART = 0x9E3779B9
"""2³² divided by the golden ratio."""


def _units(body: Body, shape: Sequence[int], number: int = 0) -> str:
    """Numbers from 0 to below 1; `number` tells several of a node apart."""
    own = np.float32(body.real("seed")).view(np.uint32) if body.value("seed") is not None else 0
    stream = (int(own) + APART * (2 * body.integer(STREAM) + number + 1)) % (1 << 32)
    signed = stream - (1 << 32) if stream >= 1 << 31 else stream
    flat = body.node(
        "RandomUnits", f"i{body.inputs - 1}", domain=OWN_DOMAIN, stream=signed, count=prod(shape)
    )
    return body.reshaped(flat, *shape)


def _real(body: Body, value: float) -> str:
    return body.weight(np.array(value, np.float32))


def _uniform(body: Body, shape: Sequence[int]) -> str:
    low, high = body.real("low", 0.0), body.real("high", 1.0)
    scaled = body.node("Mul", _units(body, shape), _real(body, high - low))
    return body.node("Add", scaled, _real(body, low))


def _normal(body: Body, shape: Sequence[int]) -> str:
    """By Box and Muller: √(-2 log(1 - u)) · cos(2π v)."""
    first, second = _units(body, shape), _units(body, shape, 1)
    rest = body.node("Sub", _real(body, 1), first)
    length = body.node("Sqrt", body.node("Mul", body.node("Log", rest), _real(body, -2)))
    cosine = body.node("Cos", body.node("Mul", second, _real(body, 2 * pi)))
    made = body.node("Mul", length, cosine)
    scaled = body.node("Mul", made, _real(body, body.real("scale", 1.0)))
    return body.node("Add", scaled, _real(body, body.real("mean", 0.0)))


def _drawn(
    draw: Callable[[Body, Sequence[int]], str], *, like: bool
) -> Callable[[Body], tuple[str, ...]]:
    """Draws numbers of a shape that the node tells, or of that of its input."""

    def write(body: Body) -> tuple[str, ...]:
        shape = body.shape(0) if like else tuple(body.value("shape"))
        kind = body.value("dtype")
        if kind is None and like and body.dtype(0).kind != "f":
            raise body.refusal("its input has no real numbers", "export it with a dtype")
        return (_cast(body, draw(body, shape), kind, like=like),)

    return write


def _cast(body: Body, x: str, kind: int | None, *, like: bool) -> str:
    if kind is None:
        return body.node("CastLike", x, "i0") if like else x
    return x if kind == body.F32 else body.node("Cast", x, to=kind)


def _bernoulli(body: Body) -> tuple[str, ...]:
    """1 with the probability that an entry is, else 0."""
    chances = body.node("Cast", "i0", to=body.F32)
    drawn = body.node("Less", _units(body, body.shape(0)), chances)
    return (_cast(body, body.node("Cast", drawn, to=body.F32), body.value("dtype"), like=True),)


def _multinomial(body: Body) -> tuple[str, ...]:
    """Classes by logarithms of their chances [batch, classes]: where the logarithm and a number of
    Gumbel's distribution are the largest."""
    batch, classes = body.shape(0)
    count = body.integer("sample_size", 1)
    units = _units(body, (batch, count, classes))
    below = body.node("Sub", _real(body, 1), units)
    waiting = body.node("Neg", body.node("Log", below))
    least = body.node("Max", waiting, _real(body, 2.0**-25))
    gumbel = body.node("Neg", body.node("Log", least))
    chances = body.node("Unsqueeze", body.node("Cast", "i0", to=body.F32), body.integers(1))
    place = body.node("ArgMax", body.node("Add", chances, gumbel), axis=2, keepdims=0)
    kind = body.integer("dtype", body.I32)
    return (body.node("Cast", place, to=kind),)


OPERATORS: Mapping[str, Callable[[Body], tuple[str, ...]]] = {
    "Bernoulli": _bernoulli,
    "Multinomial": _multinomial,
    "RandomNormal": _drawn(_normal, like=False),
    "RandomNormalLike": _drawn(_normal, like=True),
    "RandomUniform": _drawn(_uniform, like=False),
    "RandomUniformLike": _drawn(_uniform, like=True),
}
