"""Inputs by a seed, and the outputs that belong to them: what a page checks its kernels with.

The outputs are computed in NumPy from the graph as it was imported, before any rule changed it.

Kernels round otherwise than NumPy. Inputs of which that decides the outputs check nothing: a norm
of rows that are all equal divides rounding by rounding. So outputs are computed once more with
every value off by as much as rounding may be (`rounded`), and inputs are drawn anew, in other ways
(`WAYS`), until outputs stay within a part of the tolerance. Of what no inputs settle, such as the
largest of a million near values, as many entries may be off as moved then, and some.

A network that quantises what it computes rounds to steps of a 255th of a range. Where a value lies
between two, rounding decides for one, and that step goes through all that follows. No inputs settle
it; so the tolerance of such outputs follows from how far steps moved them (`quantises`).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelzoo.domain.dtype import DType
from kernelzoo.domain.operators.expressions import Call, Cast, Function, Program, parts
from kernelzoo.domain.plan import Golden, GoldenPart, PortDType
from services.tuner.graph.evaluate import evaluate
from services.tuner.graph.graph import Graph, GraphPort, Node, View
from services.tuner.graph.indices import Range, Uses, uses_of_integers

SEED = 20_201
TOLERANCE = 1e-4
SETTLED = TOLERANCE / 4
"""By so much of an output's largest magnitude may rounding move entries that are compared."""
ROUNDING = 5e-7
"""A value of kernels may be off by so much of itself: 4 to 8 roundings of f32."""
WHOLE_BELOW = float(1 << 20)
"""Whole numbers below are exact on every target: counts, places, what a comparison gives."""
AT_ONCE = 65_521
"""Entries that are rounded in one go, which the processor's cache holds. A prime, so that rows are
not rounded alike."""
OFF_SPREAD = 4
"""Other roundings may move so many times as many entries as those that were tried."""
MOST_OFF = 1 / 8
"""The share of an output's entries that may be off. One of which more are is not compared."""
STEP_SPREAD = 2.0
"""Other roundings may move outputs of a network that quantises so many times as far."""
MOST_TOLERANCE = 0.25
"""Outputs that steps move by more are compared as those of other networks are."""
NUMBERS = 10
"""Integers that nothing is known of are below, where they are no mask."""

Feeds = dict[str, NDArray[Any]]


class Way(StrEnum):
    """Inputs of which nothing is known are drawn in one of these ways. Real numbers: normally
    distributed, or from 0 to 1 as those that a logarithm or a root takes. Integers: a mask that
    leaves out the last eighth of each row, or any of a few."""

    NORMAL = "normal reals, masks"
    NUMBERS = "normal reals, integers"
    POSITIVE = "reals from 0 to 1, masks"


WAYS = (Way.NORMAL, Way.NORMAL, Way.NUMBERS, Way.POSITIVE)
"""Ways are tried in this order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GoldenFile:
    """`feeds` and `outputs` by the names of ports, in the graph's dtypes."""

    golden: Golden
    body: bytes
    feeds: Feeds
    outputs: Feeds

    @property
    def off(self) -> dict[str, int]:
        """Maps the name of an output to how many of its entries may be off; of the others none
        may."""
        return {part.name: part.off for part in self.golden.outputs if part.off is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Drawn:
    """Inputs with the outputs that belong to them, how many entries of each are off, and how far
    the others may be."""

    feeds: Feeds
    outputs: Feeds
    off: Mapping[str, int]
    tolerance: float

    @property
    def unsettled(self) -> tuple[bool, float]:
        """Says how bad it is as a check: with outputs that are no numbers, then by the share of
        entries that are off."""
        finite = all(np.isfinite(each).all() for each in self.outputs.values())
        shares = (self.off[name] / max(1, each.size) for name, each in self.outputs.items())
        return not finite, max(shares, default=0.0)


def golden_file(graph: Graph, feeds: Feeds | None = None) -> GoldenFile:
    """The file of a graph as it was imported; `feeds` by the names of inputs, else seeded."""
    drawn = _settled(graph) if feeds is None else _computed(graph, feeds)
    off = _allowed(drawn)
    return written(graph, drawn.feeds, drawn.outputs, off=off, tolerance=drawn.tolerance)


def _settled(graph: Graph) -> _Drawn:
    """The first inputs whose outputs rounding does not move, or those of two that it moves least
    where these are few entries, or of all ways."""
    best: _Drawn | None = None
    for number, way in enumerate(WAYS):
        drawn = _computed(graph, seeded_feeds(graph, way, SEED + number))
        if best is None or drawn.unsettled < best.unsettled:
            best = drawn
        # Another draw costs two evaluations, and a few entries may be off.
        most = MOST_OFF / OFF_SPREAD if number else 0.0
        if best.unsettled <= (False, most):
            break
    assert best is not None
    return best


def _computed(graph: Graph, feeds: Feeds) -> _Drawn:
    outputs = evaluate(graph, feeds)
    moved = evaluate(graph, feeds, seen=rounded(np.random.default_rng(SEED)))
    tolerance = TOLERANCE
    if quantises(graph):
        stepped = STEP_SPREAD * max(_furthest(moved[name], each) for name, each in outputs.items())
        tolerance = max(TOLERANCE, stepped) if stepped <= MOST_TOLERANCE else TOLERANCE
    share = SETTLED if tolerance == TOLERANCE else tolerance
    off = {name: entries_off(moved[name], right, share) for name, right in outputs.items()}
    return _Drawn(feeds=feeds, outputs=outputs, off=off, tolerance=tolerance)


def quantises(graph: Graph) -> bool:
    """Returns whether it makes whole numbers of rounded real ones."""
    programs = (node.op for node in graph.nodes if isinstance(node.op, Program))
    casts = (
        part
        for program in programs
        for stage in program.stages
        for part in parts(stage.value)
        if isinstance(part, Cast) and part.dtype is DType.I32
    )
    return any(
        isinstance(inner, Call) and inner.function is Function.ROUND
        for cast in casts
        for inner in parts(cast)
    )


def _furthest(found: NDArray[Any], right: NDArray[Any]) -> float:
    """The largest difference, of the largest magnitude that is right; NaN where one is none."""
    wanted = np.asarray(right, np.float64)
    apart = np.abs(np.asarray(found, np.float64) - wanted).max(initial=0.0)
    return float(apart / (np.abs(wanted).max(initial=0.0) or 1.0))


def _allowed(drawn: _Drawn) -> dict[str, int]:
    """Counts the entries of each output that may be off; all of those that are not compared."""
    allowed: dict[str, int] = {}
    for name, entries in drawn.outputs.items():
        off = OFF_SPREAD * drawn.off[name]
        if off:
            allowed[name] = off if off <= MOST_OFF * entries.size else entries.size
    return allowed


def rounded(random: np.random.Generator) -> Callable[[Node, NDArray[Any]], NDArray[Any]]:
    """Brings each entry that nodes compute a little nearer to 0, so that none leaves f32."""
    kept = 1 - random.random(AT_ONCE, np.float32) * np.float32(ROUNDING)

    def seen(node: Node, entries: NDArray[Any]) -> NDArray[Any]:
        if isinstance(node.op, View) or entries.dtype.kind != "f":
            return entries
        made = np.array(entries, order="C")
        flat, shares = made.reshape(-1), np.roll(kept, random.integers(AT_ONCE))
        with np.errstate(invalid="ignore"):
            for start in range(0, flat.size, AT_ONCE):
                some = flat[start : start + AT_ONCE]
                is_whole = (np.rint(some) == some) & (np.abs(some) < WHOLE_BELOW)
                some *= np.where(is_whole, np.float32(1), shares[: some.size])
        return made

    return seen


def entries_off(found: NDArray[Any], right: NDArray[Any], tolerance: float) -> int:
    """Counts the entries that differ by more than `tolerance` times the largest magnitude that is
    right."""
    wanted, made = np.asarray(right, np.float64), np.asarray(found, np.float64)
    finite = np.isfinite(wanted)
    largest = float(np.abs(wanted[finite]).max(initial=0.0))
    with np.errstate(invalid="ignore"):
        near = np.abs(made - wanted) <= tolerance * largest
    same = (made == wanted) | (np.isnan(made) & np.isnan(wanted))
    return int(np.count_nonzero(~(near | same)))


def written(
    graph: Graph,
    feeds: Feeds,
    outputs: Feeds,
    storage_error: float | None = None,
    off: Mapping[str, int] | None = None,
    tolerance: float = TOLERANCE,
) -> GoldenFile:
    body = bytearray()
    inputs = tuple(_append(body, port, feeds[port.name]) for port in graph.inputs)
    made = tuple(
        _append(body, port, outputs[port.name], (off or {}).get(port.name))
        for port in graph.outputs
    )
    golden = Golden(
        sha256=sha256(body).hexdigest(),
        inputs=inputs,
        outputs=made,
        tolerance=tolerance,
        storage_error=storage_error,
    )
    return GoldenFile(golden=golden, body=bytes(body), feeds=feeds, outputs=outputs)


def _append(
    body: bytearray, port: GraphPort, entries: NDArray[Any], off: int | None = None
) -> GoldenPart:
    kind = np.float32 if port.dtype.stored is DType.F32 else np.int32
    data = np.ascontiguousarray(entries, kind).tobytes()
    part = GoldenPart(name=port.name, offset=len(body), bytes=len(data), off=off)
    body += data
    return part


def seeded_feeds(graph: Graph, way: Way = Way.NORMAL, seed: int = SEED) -> Feeds:
    """Integers that choose rows of a table are below its length, those that are compared with
    several numbers are among these, bytes are any; all others are drawn in this `way`."""
    random = np.random.default_rng(seed)
    uses = uses_of_integers(graph)
    return {
        port.name: _drawn(random, graph, port, uses.get(port.value, Uses()), way)
        for port in graph.inputs
    }


def _drawn(
    random: np.random.Generator, graph: Graph, port: GraphPort, uses: Uses, way: Way
) -> NDArray[Any]:
    shape = graph.values[port.value].shape
    if port.dtype is PortDType.FLOAT32:
        if way is Way.POSITIVE:
            return random.random(shape, np.float32)
        return random.standard_normal(shape, np.float32)
    if port.dtype is not PortDType.BOOL:
        known = _known(port, uses)
        if known is None and way is Way.NUMBERS:
            known = 0, NUMBERS - 1
        if known is not None:
            return random.integers(known[0], known[1] + 1, shape).astype(np.int32)
    mask = np.ones(shape, np.int32)
    if shape and shape[-1] >= 8:
        mask[..., -(shape[-1] // 8) :] = 0
    return mask


def _known(port: GraphPort, uses: Uses) -> Range | None:
    """Returns the integers that the input is made for; None where nothing tells them from a
    mask."""
    if uses.index is not None:
        return 0, uses.index - 1
    if port.dtype is PortDType.UINT8:
        return 0, 255
    if uses.compared is None or (uses.compared[0] >= 0 and uses.compared[1] <= 1):
        return None
    low, high = uses.compared
    return (min(0, low - 1), high + 1) if low == high else (low, high)
