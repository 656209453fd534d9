"""Dimensions that a model leaves open, as `--dim` gives them."""

import re
from collections.abc import Mapping, Sequence
from itertools import product

from kernelzoo.errors import InvalidInput

MOST_PLANS = 64
_DIMENSION = re.compile(
    r"(?P<name>[A-Za-z_][A-Za-z0-9_.-]{0,63})=(?P<extents>[0-9]{1,9}(,[0-9]{1,9})*)"
)

Dimensions = Mapping[str, int]


def parse_dimensions(texts: Sequence[str]) -> tuple[Dimensions, ...]:
    """Every combination of what `batch=1` and `sequence=128,384` say, each of one plan; one empty
    choice of nothing. Raises InvalidInput for anything else.
    """
    extents: dict[str, tuple[int, ...]] = {}
    for text in texts:
        match = _DIMENSION.fullmatch(text)
        if match is None:
            raise InvalidInput(
                f"--dim {text[:80]} is no dimension; write --dim batch=1 or --dim sequence=128,384"
            )
        if match["name"] in extents:
            raise InvalidInput(
                f"--dim {match['name']} is there twice; write all its extents in one, as in "
                f"--dim {match['name']}=128,384"
            )
        extents[match["name"]] = tuple(dict.fromkeys(map(int, match["extents"].split(","))))
    if zero := next((name for name, given in extents.items() if 0 in given), None):
        raise InvalidInput(f"--dim {zero}=0 leaves nothing to compute; it must be at least 1")
    choices = [dict(zip(extents, each, strict=True)) for each in product(*extents.values())]
    if len(choices) > MOST_PLANS:
        raise InvalidInput(
            f"--dim asks for {len(choices)} plans; a model may have {MOST_PLANS}: "
            "give fewer extents, a page pads its inputs to the next larger one"
        )
    return tuple(choices)


def written(dimensions: Dimensions) -> str:
    """Dimensions as people read them, also of a model that leaves nothing open."""
    return ", ".join(f"{name}={extent}" for name, extent in dimensions.items()) or "fixed shapes"
