"""Keys of workloads as earlier versions spelled them, for error messages and for kernel replay."""

import re

_WINDOW = {"r": "kh", "q": "kw", "s": "stride", "p": "pad"}
_RENAMED = {
    **dict.fromkeys(("conv2d", "depthwise_conv2d", "max_pool2d", "avg_pool2d"), _WINDOW),
    "slice": {"s": "start", "k": "size"},
    "pad": {"p": "pad"},
}
"""Names of axes in keys, the former first; of operators that had others."""

_AXIS = re.compile(r"([a-z]+)(?=[0-9])")


def respelled(key: str) -> str:
    """A key in either spelling, as it is spelled today; unchanged where it has nothing former."""
    return _renamed(key, _RENAMED.get(_operator(key), {}))


def spellings(key: str) -> tuple[str, ...]:
    """A key of today, and as it was spelled before where that differs."""
    former = {new: old for old, new in _RENAMED.get(_operator(key), {}).items()}
    return tuple(dict.fromkeys((key, _renamed(key, former))))


def _operator(key: str) -> str:
    return key.partition(":")[0].partition("+")[0]


def _renamed(key: str, names: dict[str, str]) -> str:
    *head, extents = key.split(":", 2)
    return ":".join((*head, _AXIS.sub(lambda axis: names.get(axis[1], axis[1]), extents)))
