"""A workgroup finds what is the most, by any order, of many entries: the largest, or the first."""

from collections.abc import Callable

from services.tuner import ir

Values = tuple[ir.Expression, ...]


def found(
    parameters: tuple[ir.Buffer, ...],
    sizes: tuple[int, int],
    count: int,
    held: tuple[ir.Buffer, ...],
    shared: tuple[ir.Buffer, ...],
    start: tuple[ir.Const, ...],
    read: Callable[[ir.Affine], Values],
    better: Callable[[Values, bool], ir.Block],
    stored: Callable[[ir.Affine], ir.Block],
) -> ir.Program:
    """One dispatch of `sizes`, workgroups and threads to each. A thread takes every so many of
    `count` entries; then pairs of threads, half as many each time, meet in workgroup memory.

    `held` has the best of a thread, `start` before any, and `shared` those of all threads. `read`
    makes the values of an entry; `better` keeps them where they are better than those held, which
    are of entries before, except where it is told that those are of another thread. The first
    thread does what is `stored` for the number of its workgroup.
    """
    frame, (groups, threads) = ir.Frame(), sizes
    group, thread = frame.variable("group", groups), frame.variable("thread", threads)
    inside, steps = frame.nested(), -(-count // (threads * groups))
    at = (inside.variable("step", steps) * groups + group) * threads + thread
    exists = inside.undecided((at.below(count),))
    told = tuple(each.store(thread, own[0]) for each, own in zip(shared, held, strict=True))
    starts = tuple(own.store(0, value) for own, value in zip(held, start, strict=True))
    body: ir.Block = (
        *starts,
        *ir.serial("step", steps, ir.under(exists, better(read(at), False))),
        *told,
        ir.Barrier(),
    )
    half = threads // 2
    while half:
        pair = better(tuple(each[thread + half] for each in shared), True)
        body = (*body, *ir.under((thread.below(half),), (*pair, *told)), ir.Barrier())
        half //= 2
    body = (*body, *ir.under((thread.below(1),), stored(group)))
    return frame.dispatch(parameters, sizes, body, local=held, shared=shared)


def joining_threads(parts: int, threads: int) -> int:
    """Threads of the one workgroup that finds the best of all parts."""
    return max(32, min(threads, 1 << (parts - 1).bit_length()))
