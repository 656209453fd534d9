"""The order in which a device measures a space: what the model expects, and what others say."""

from collections.abc import Mapping, Sequence

OUTSIDERS = 3
"""Places among the first eight, a lease, that evidence of outside sources may claim."""


def evaluation_order(
    ranked: Sequence[str], outside: Mapping[str, float], *, most: int = OUTSIDERS
) -> tuple[str, ...]:
    """Candidate ids, first to be measured first.

    `ranked` is the order so far. `outside` are relative times that others claim; the `most` fastest
    of them move to the second place and those behind it. The first place stays: whoever forges
    evidence can waste three measurements of a lease, and neither keep a kernel from being
    measured nor have one served.
    """
    first, *rest = ranked
    claimed = sorted((each for each in rest if each in outside), key=outside.__getitem__)[:most]
    return (first, *claimed, *(each for each in rest if each not in claimed))
