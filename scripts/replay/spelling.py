"""Keys of workloads in the spelling of today, and in the one before it."""

import re

WINDOW = {"r": "kh", "q": "kw", "s": "stride", "p": "pad"}
RENAMED = {
    **dict.fromkeys(("conv2d", "depthwise_conv2d", "max_pool2d", "avg_pool2d"), WINDOW),
    "slice": {"s": "start", "k": "size"},
    "pad": {"p": "pad"},
}
"""Names of axes in keys, the former first; of operators that had others."""

_AXIS = re.compile(r"([a-z]+)([0-9]+)")


def respelled(key: str) -> str:
    """A key in either spelling, as it is spelled today."""
    return _renamed(key, RENAMED.get(_operator(key), {}))


def spellings(key: str) -> tuple[str, ...]:
    """A key of today, and as it was spelled before where that differs."""
    former = {new: old for old, new in RENAMED.get(_operator(key), {}).items()}
    return tuple(dict.fromkeys((key, _renamed(key, former))))


def _operator(key: str) -> str:
    return key.partition(":")[0].partition("+")[0]


def _renamed(key: str, names: dict[str, str]) -> str:
    operators, _, rest = key.partition(":")
    dtype, _, rest = rest.partition(":")
    extents, *constant = rest.split(":")
    axes = (f"{names.get(axis, axis)}{extent}" for axis, extent in _AXIS.findall(extents))
    return ":".join((operators, dtype, "".join(axes), *constant))
