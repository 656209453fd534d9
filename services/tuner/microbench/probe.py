"""A microbenchmark suite is made of these, for either target."""

from dataclasses import dataclass
from typing import Generic, TypeVar

S = TypeVar("S")


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe(Generic[S]):
    """Its bit is 1 where the advanced setting is at least `margin` times as fast as the base."""

    primitive: str
    margin: float
    base: S
    advanced: S
