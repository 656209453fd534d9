"""Names what the project takes of TVM: the only module that imports it.

Operators and schedules state programs with `te`, `tirx` and `Schedule`; the front end reads them by
`ir` and `tirx`, after the passes of `s_tir`. A TVM release that renames one of them changes this
file alone.
"""

from inspect import unwrap
from typing import Any

from tvm import IRModule, ir, s_tir, te, tirx
from tvm.target import Target

Node = Any
"""Any object of TVM, which ships no types. None of them leaves the tuner: the loop IR is what the
front end makes of them."""

_PRIMITIVES = (
    *("__init__", "get_sblock", "get_loops", "split", "reorder", "vectorize", "unroll"),
    *("cache_read", "cache_write", "compute_at", "reverse_compute_at", "transform_layout"),
    *("decompose_reduction", "set_scope"),
)
Schedule = type(
    "Schedule",
    (s_tir.Schedule,),
    {name: unwrap(getattr(s_tir.Schedule, name)) for name in _PRIMITIVES},
)
"""TVM's schedule without its checks of argument types, a quarter of the time of a schedule."""

__all__ = ["IRModule", "Node", "Schedule", "Target", "ir", "s_tir", "te", "tirx"]
