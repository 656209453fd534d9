"""Affine forms of loop variables. Every index and every guard of the loop IR is one.

row, k = variable("row"), variable("k")
row * 64 + k        an index
row.below(100)      a guard: a Bound, not a truth value
"""

from collections.abc import Mapping
from typing import Self

from msgspec import Struct

Range = tuple[int, int]
"""Inclusive smallest and largest value of a loop variable."""
Ranges = Mapping[str, Range]
Terms = tuple[tuple[str, int], ...]
"""Loop variables and their factors, sorted by variable, without zeros."""


class Affine(Struct, frozen=True, kw_only=True, gc=False):
    """`constant + Σ coefficient·variable`."""

    constant: int
    terms: Terms = ()

    @classmethod
    def of(cls, constant: int, coefficients: Mapping[str, int]) -> Self:
        terms = tuple(sorted((var, c) for var, c in coefficients.items() if c))
        return cls(constant=constant, terms=terms)

    def coefficient(self, var: str) -> int:
        for name, factor in self.terms:
            if name == var:
                return factor
        return 0

    def __add__(self, other: "Affine | int") -> "Affine":
        if isinstance(other, int):
            return Affine(constant=self.constant + other, terms=self.terms)
        if not other.terms:
            return Affine(constant=self.constant + other.constant, terms=self.terms)
        sums = dict(self.terms)
        for var, c in other.terms:
            sums[var] = sums.get(var, 0) + c
        return Affine.of(self.constant + other.constant, sums)

    __radd__ = __add__

    def __sub__(self, other: "Affine | int") -> "Affine":
        return self + other * -1

    def __rsub__(self, other: int) -> "Affine":
        return self * -1 + other

    def __mul__(self, factor: int) -> "Affine":
        if not factor:
            return Affine(constant=0)
        return Affine(
            constant=self.constant * factor, terms=tuple([(v, c * factor) for v, c in self.terms])
        )

    def below(self, limit: "Affine | int") -> "Bound":
        """No `<`: a class that has it is compared by `==` up to ten times as slowly."""
        if isinstance(limit, int):
            return Bound(index=self, limit=limit)
        return Bound(index=self - limit, limit=0)

    def at_least(self, limit: int) -> "Bound":
        return Bound(index=self * -1, limit=1 - limit)

    def divided(self, divisor: int) -> "Affine":
        """The quotient by a divisor of the constant and of all factors."""
        terms = tuple((var, factor // divisor) for var, factor in self.terms)
        return Affine(constant=self.constant // divisor, terms=terms)

    def substitute(self, var: str, value: "Affine") -> "Affine":
        factor = self.coefficient(var)
        if not factor:
            return self
        rest = Affine(constant=self.constant, terms=tuple(t for t in self.terms if t[0] != var))
        return rest + value * factor

    def bounds(self, ranges: Mapping[str, Range]) -> Range:
        """Smallest and largest value over all values of the variables in their ranges."""
        low = high = self.constant
        for var, c in self.terms:
            first, last = ranges[var]
            low += c * (first if c > 0 else last)
            high += c * (last if c > 0 else first)
        return low, high


def variable(name: str) -> Affine:
    return Affine(constant=0, terms=((name, 1),))


class Bound(Struct, frozen=True, kw_only=True, gc=False):
    """The condition `index < limit`, which is known when the program runs."""

    index: Affine
    limit: int

    def __bool__(self) -> bool:
        raise TypeError("a bound holds or fails when the program runs; put it into an If")
