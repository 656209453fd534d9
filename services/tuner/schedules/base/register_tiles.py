"""Schedule steps of tiles that are summed in registers: where they are stored, and how."""

from services.tuner.tir.tvm import Node


def write_back(schedule: Node, block: Node, at: Node, *, finished: str = "") -> None:
    """Sums stay in registers; inside loop `at` they are stored, by the block of an epilogue where
    `finished` names one."""
    if finished:
        schedule.set_scope(block, 0, "local")
        store = schedule.get_sblock(finished)
    else:
        store = schedule.cache_write(block, 0, "local")
    schedule.reverse_compute_at(store, at, preserve_unit_loops=True)
    vectorise_tile(schedule, store)


def vectorise_tile(schedule: Node, block: Node) -> None:
    *_, rows, columns = schedule.get_loops(block)
    schedule.vectorize(columns)
    schedule.unroll(rows)
