"""A small workload of each operator, by which it is shown and tried."""

from kernelzoo.domain.operators.operator import Operator

EXTENTS = {
    "b": 1, "m": 64, "k": 96, "n": 128, "h": 17, "w": 19, "c": 5, "o": 7,
    "kh": 3, "kw": 3, "stride": 2, "pad": 1, "start": 2, "size": 96, "eps": 5,
    "block": 32,
}  # fmt: skip


def example_extents(operator: Operator) -> tuple[int, ...]:
    """The extents of its axes, in the order of a key."""
    steps = dict(operator.multiples)
    return tuple(-(-EXTENTS[axis] // (n := steps.get(axis, 1))) * n for axis in operator.axes)
