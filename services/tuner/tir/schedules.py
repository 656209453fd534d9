"""TVM's schedule as the families of operators use it."""

from inspect import unwrap

from tvm import s_tir

from services.tuner.tir.expressions import Node

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


def write_back(schedule: Node, block: Node, at: Node, *, finished: bool) -> None:
    """Sums stay in registers; inside loop `at` they are stored, `finished` by an epilogue."""
    if finished:
        schedule.set_scope(block, 0, "local")
        store = schedule.get_sblock("c")
    else:
        store = schedule.cache_write(block, 0, "local")
    schedule.reverse_compute_at(store, at, preserve_unit_loops=True)
    vectorise_tile(schedule, store)


def vectorise_tile(schedule: Node, block: Node) -> None:
    *_, rows, columns = schedule.get_loops(block)
    schedule.vectorize(columns)
    schedule.unroll(rows)
