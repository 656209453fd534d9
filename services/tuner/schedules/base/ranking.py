"""Orders the points of a space by promise: each choice has a rank, and ranks are added up."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from typing import Protocol, TypeVar, overload

from kernelzoo.domain.workload import Workload

A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
D = TypeVar("D")


class Refusable(Protocol):
    def fault(self, workload: Workload, /) -> str: ...


F = TypeVar("F", bound=Refusable)


@overload
def ranked(
    one: Sequence[A], two: Sequence[B], /, *, weights: Sequence[float] = ...
) -> Iterator[tuple[float, A, B]]: ...
@overload
def ranked(
    one: Sequence[A], two: Sequence[B], three: Sequence[C], /, *, weights: Sequence[float] = ...
) -> Iterator[tuple[float, A, B, C]]: ...
@overload
def ranked(
    one: Sequence[A],
    two: Sequence[B],
    three: Sequence[C],
    four: Sequence[D],
    /,
    *,
    weights: Sequence[float] = ...,
) -> Iterator[tuple[float, A, B, C, D]]: ...
def ranked(*axes: Sequence[object], weights: Sequence[float] = ()) -> Iterator[tuple[object, ...]]:
    """Every choice of one value from each axis, behind its rank: the places of these values on
    their axes, the likely best first, times the weights of the axes, which are 1 unless said."""
    steps = weights or (1,) * len(axes)
    for places in product(*map(enumerate, axes)):
        rank = sum(step * place for step, (place, _) in zip(steps, places, strict=True))
        yield rank, *(value for _, value in places)


def by_rank(points: Iterable[tuple[F, float]], workload: Workload) -> tuple[F, ...]:
    """The configs that suit the workload, each once, ordered by their least ranks."""
    least: dict[F, float] = {}
    for config, rank in points:
        if not config.fault(workload):
            least[config] = min(rank, least.get(config, rank))
    return tuple(sorted(least, key=least.__getitem__))
