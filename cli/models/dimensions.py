"""Reads what `--dim` and `--constant` say: dimensions that a model leaves open, and inputs that
become constants."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import TypeAlias

from kernelzoo.domain.plan_checking import MAX_EXTENT, is_dimension_name
from kernelzoo.domain.precision import Precision
from kernelzoo.errors import InvalidInput

MOST_PLANS = 64
MOST_RANGES = 3
"""One may be that of a batch, whose entries run one after another."""

Dimensions = Mapping[str, int]
Value: TypeAlias = "bool | int | float | list[Value]"


_RANGE = re.compile(r"(?P<least>[0-9]{1,9})\.\.(?P<most>[0-9]{1,9})")
_NUMBER = re.compile(r"[0-9]{1,9}")


@dataclass(frozen=True, slots=True, kw_only=True)
class DimensionRange:
    """The extents of a dimension that one plan serves, both included."""

    name: str
    least: int
    most: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DimensionSum:
    """A dimension that is the sum of others and `more`, such as the keys of a decoder, which are
    those of its cache and those of a run."""

    name: str
    terms: tuple[str, ...]
    more: int

    def extent(self, dimensions: Dimensions) -> int:
        return sum(dimensions[term] for term in self.terms) + self.more


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanChoice:
    """One plan of a model is made for this choice."""

    dimensions: Dimensions
    constants: Mapping[str, Value]

    @property
    def named(self) -> Dimensions:
        """Names the choice as pages ask for it and as it is shown: constants that are no fractions
        count as dimensions."""
        told = {name: _extent(value) for name, value in self.constants.items()}
        return {
            **self.dimensions,
            **{name: extent for name, extent in told.items() if extent is not None},
        }


def parse_ranges(texts: Sequence[str]) -> tuple[tuple[DimensionRange, ...], list[str]]:
    """Reads `sequence=1..128`, and returns the texts with the largest extent in its place. Raises
    InvalidInput for four ranges, and for one that has no extents."""
    found: list[DimensionRange] = []
    others = []
    for text in texts:
        name, _, given = text.rpartition("=")
        match = _RANGE.fullmatch(given)
        if match is None:
            others.append(text)
            continue
        least, most = int(match["least"]), int(match["most"])
        if least >= most:
            own = f"{name}={most}" if least == most > 0 else f"{name}=1..128"
            raise InvalidInput(f"--dim {text[:80]} is no range; write --dim {own}")
        if len(found) == MOST_RANGES:
            names = " and ".join(f"--dim {each.name}" for each in found)
            raise InvalidInput(
                f"{names} are ranges already, and a plan has {MOST_RANGES}: give --dim {name} one "
                f"extent, as in --dim {name}=1"
            )
        found.append(DimensionRange(name=name, least=least, most=most))
        others.append(f"{name}={most}")
    return tuple(found), others


def parse_sums(
    texts: Sequence[str], ranges: Sequence[DimensionRange]
) -> tuple[tuple[DimensionSum, ...], list[str]]:
    """Reads `total=past+sequence`, and returns the other texts. Raises InvalidInput for a sum of
    what is no dimension with one extent or a range, for one beside no range, and for one of a
    dimension that is there twice."""
    known = {name for name, _, given in (t.rpartition("=") for t in texts) if given.isdecimal()}
    names = [text.rpartition("=")[0] for text in texts]
    found: list[DimensionSum] = []
    others = []
    for text in texts:
        name, _, given = text.rpartition("=")
        parts = [each.strip() for each in given.split("+")]
        numbers = [int(each) for each in parts if _NUMBER.fullmatch(each)]
        terms = tuple(each for each in parts if not _NUMBER.fullmatch(each))
        if len(parts) < 2 or not name or not terms:
            others.append(text)
            continue
        unknown = next((each for each in terms if each not in known), None)
        if unknown is not None:
            raise InvalidInput(
                f"--dim {text[:80]} is a sum of {unknown[:40]!r}, which has neither one extent nor "
                f"a range; write --dim {unknown[:40]}=1..64 beside it"
            )
        if names.count(name) > 1:
            raise InvalidInput(
                f"--dim {name[:80]} is there twice; write its extents, its range or its sum"
            )
        if not ranges:
            raise InvalidInput(
                f"--dim {text[:80]} is a sum, and no dimension has a range; write its extent"
            )
        found.append(DimensionSum(name=name, terms=terms, more=sum(numbers)))
    return tuple(found), others


def parse_dimensions(texts: Sequence[str]) -> tuple[Dimensions, ...]:
    """Every combination of what `batch=1` and `sequence=128,384` say, each of one plan; one empty
    choice of nothing. Raises InvalidInput for anything else.
    """
    extents: dict[str, tuple[int, ...]] = {}
    for text in texts:
        name, equals, given = text.rpartition("=")
        numbers = given.split(",")
        digits = all(each.isascii() and each.isdigit() and len(each) < 10 for each in numbers)
        if not equals or not digits or not is_dimension_name(name):
            raise InvalidInput(
                f"--dim {text[:80]} is no dimension; write --dim batch=1 or --dim "
                "sequence=128,384, in quotes where the name has a space, a bracket or a mark"
            )
        if name in extents:
            raise InvalidInput(
                f"--dim {name} is there twice; write all its extents in one, as in "
                f"--dim {name}=128,384"
            )
        extents[name] = tuple(dict.fromkeys(map(int, numbers)))
    choices = [dict(zip(extents, each, strict=True)) for each in product(*extents.values())]
    _refuse_many(len(choices))
    return tuple(choices)


def parse_constants(texts: Sequence[str]) -> tuple[Mapping[str, Value], ...]:
    """Every combination of what `sr=16000`, `cached=true,false` and `sizes=[1,2]` say, each of one
    plan. Raises InvalidInput for anything else."""
    values: dict[str, list[Value]] = {}
    for text in texts:
        name, equals, given = text.partition("=")
        if not equals or not name or name in values:
            raise _refusal(text)
        values[name] = _values(text, given)
    choices = [dict(zip(values, each, strict=True)) for each in product(*values.values())]
    _refuse_many(len(choices))
    for name, several in values.items():
        extents = [_extent(value) for value in several]
        if len(several) > 1 and (None in extents or len({*extents}) < len(extents)):
            raise InvalidInput(
                f"--constant {name} has several values, of which pages choose one by a whole "
                "number; give values that are whole, or register a model for each"
            )
    return tuple(choices)


def _values(text: str, given: str) -> list[Value]:
    """Numbers in JSON, true and false in any letters."""
    try:
        values = json.loads(f"[{given.lower()}]", parse_constant=_refuse_word)
    except ValueError as error:
        raise _refusal(text) from error
    if not values or not all(map(_is_value, values)):
        raise _refusal(text)
    return values  # type: ignore[no-any-return]


def _refuse_word(word: str) -> None:
    raise ValueError(word)


def _is_value(value: object) -> bool:
    if isinstance(value, list):
        return all(map(_is_value, value))
    return isinstance(value, bool | int | float)


def _extent(value: Value) -> int | None:
    """Returns the number by which pages ask for a value; None for what is no whole number."""
    return int(value) if isinstance(value, int) and 0 <= value <= MAX_EXTENT else None


def _refusal(text: str) -> InvalidInput:
    return InvalidInput(
        f"--constant {text[:80]} says no value; write --constant sr=16000, --constant cached=true, "
        "or --constant 'sizes=[1,2]', once for each input"
    )


def _refuse_many(plans: int) -> None:
    if plans > MOST_PLANS:
        raise InvalidInput(
            f"you ask for {plans} plans; a model may have {MOST_PLANS}: "
            "give fewer extents, a page pads its inputs to the next larger one"
        )


def plan_choices(
    dimensions: Sequence[Dimensions], constants: Sequence[Mapping[str, Value]]
) -> tuple[PlanChoice, ...]:
    """Every combination of both."""
    pairs = list(product(dimensions, constants))
    _refuse_many(len(pairs))
    for given, told in pairs[:1]:
        if both := sorted(given.keys() & told.keys()):
            raise InvalidInput(f"{both[0]!r} is an input and a dimension; rename one of them")
    return tuple(PlanChoice(dimensions=given, constants=told) for given, told in pairs)


def written(dimensions: Mapping[str, int | str]) -> str:
    """Dimensions as people read them, also of a model that leaves nothing open."""
    return ", ".join(f"{name}={extent}" for name, extent in dimensions.items()) or "fixed shapes"


def in_bytes(precision: Precision) -> str:
    """Says behind a plan's dimensions that it multiplies bytes; most do not."""
    return f" in {precision}" if precision is Precision.INT8 else ""
