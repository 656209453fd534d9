"""Draws what `python -m bench.models.jit --curve FILE` has written: milliseconds of an inference
over the seconds of a page that tunes itself, with the swaps, beside the peer's flat line.

    python -m bench.models.curve FILE

There is a picture for each network, bench/results/models_jit_NETWORK.svg unless told.
"""

from argparse import ArgumentParser
from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil, floor, log10
from pathlib import Path
from statistics import median

import msgspec

from bench.models.jit import JitAnswer

RESULTS = Path(__file__).parents[1] / "results"
POINTS = 60

WIDTH, HEIGHT = 720, 252
LEFT, RIGHT, TOP, BOTTOM = 56, 12, 40, 40
TICKS_ACROSS, TICKS_UP = 8, 4

STYLE = """
svg { --ink: #1f2328; --faint: #59636e; --grid: #d1d9e0; --ours: #0969da; --swap: #bc4c00; }
@media (prefers-color-scheme: dark) {
  svg { --ink: #f0f6fc; --faint: #9198a1; --grid: #3d444d; --ours: #4493f8; --swap: #db6d28; }
}
text { font: 12px system-ui, sans-serif; fill: var(--faint); }
.name { font-weight: 600; fill: var(--ink); }
.middle { text-anchor: middle; }
.end { text-anchor: end; }
.grid { stroke: var(--grid); }
.ours { stroke: var(--ours); stroke-width: 2; fill: none; }
.peer { stroke: var(--faint); stroke-width: 2; stroke-dasharray: 6 4; }
.swap { stroke: var(--swap); stroke-width: 2; }
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """`points`: seconds and milliseconds. `swaps_s` are those of kernels that took over."""

    points: tuple[tuple[float, float], ...]
    swaps_s: tuple[float, ...]
    peer_ms: float | None


def thinned(answer: JitAnswer, most: int = POINTS) -> Curve:
    """The medians of windows of as many inferences each, at the middle of their times."""
    ours = answer.ours
    step = max(1, ceil(len(ours) / most))
    windows = [ours[start : start + step] for start in range(0, len(ours), step)]
    return Curve(
        points=tuple(
            (median(at for at, _ in each), median(ms for _, ms in each)) for each in windows
        ),
        swaps_s=tuple(swap.at_s for swap in answer.swaps),
        peer_ms=median(ms for _, ms in answer.peer) if answer.peer else None,
    )


def drawn(name: str, curve: Curve) -> str:
    """A picture in SVG, whose colours follow the reader's scheme."""
    most_s = max([at for at, _ in curve.points] + list(curve.swaps_s))
    most_ms = 1.1 * max([ms for _, ms in curve.points] + [curve.peer_ms or 0.0])
    x = _Scale(most=most_s, start=LEFT, end=WIDTH - RIGHT)
    y = _Scale(most=most_ms, start=HEIGHT - BOTTOM, end=TOP)
    parts = [*_frame(name, x, y), *_lines(curve, x, y)]
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">'
    return "\n".join([head, f"<title>{_summary(name, curve)}</title>", *parts, "</svg>"]) + "\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Scale:
    """From 0 to `most`, drawn between two places."""

    most: float
    start: float
    end: float

    def at(self, value: float) -> str:
        return f"{self.start + (self.end - self.start) * value / self.most:.1f}"

    def ticks(self, about: int) -> list[float]:
        """Multiples of 1, 2 or 5 times a power of ten."""
        power = 10.0 ** floor(log10(self.most / about))
        step = next(digit * power for digit in (1, 2, 5, 10) if digit * power * about >= self.most)
        return [number * step for number in range(floor(self.most / step) + 1)]


def _summary(name: str, curve: Curve) -> str:
    (_, first), (last_s, last) = curve.points[0], curve.points[-1]
    peer = "" if curve.peer_ms is None else f"; onnxruntime-web takes {curve.peer_ms:.4g} ms"
    swaps = f"swaps: {len(curve.swaps_s)}"
    return f"{name}: from {first:.4g} to {last:.4g} ms in {last_s:.0f} s; {swaps}{peer}"


def _frame(name: str, x: _Scale, y: _Scale) -> Iterator[str]:
    yield f"<style>{STYLE}</style>"
    for ms in y.ticks(TICKS_UP):
        at = y.at(ms)
        yield f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{at}" y2="{at}"/>'
        yield f'<text class="end" x="{LEFT - 8}" y="{at}" dy="4">{ms:g}</text>'
    for s in x.ticks(TICKS_ACROSS):
        yield f'<text class="middle" x="{x.at(s)}" y="{HEIGHT - BOTTOM + 18}">{s:g}</text>'
    yield '<text x="0" y="14">ms an inference</text>'
    yield f'<text class="name middle" x="{WIDTH / 2:g}" y="14">{name}</text>'
    yield f'<text class="end" x="{WIDTH - RIGHT}" y="{HEIGHT - 6}">seconds</text>'


def _lines(curve: Curve, x: _Scale, y: _Scale) -> Iterator[str]:
    if curve.swaps_s:
        yield f'<text class="end" x="{LEFT - 8}" y="{TOP - 6}">swaps</text>'
    for at_s in curve.swaps_s:
        place = x.at(at_s)
        yield f'<line class="swap" x1="{place}" x2="{place}" y1="{TOP - 15}" y2="{TOP - 5}"/>'
    if curve.peer_ms is not None:
        at = y.at(curve.peer_ms)
        yield f'<line class="peer" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{at}" y2="{at}"/>'
        yield f'<text class="end" x="{WIDTH - RIGHT}" y="{at}" dy="-6">onnxruntime-web</text>'
    points = " ".join(f"{x.at(at)},{y.at(ms)}" for at, ms in curve.points)
    yield f'<polyline class="ours" points="{points}"/>'


def main() -> None:
    options = ArgumentParser(description=__doc__)
    options.add_argument("file", type=Path)
    options.add_argument("--folder", type=Path, default=RESULTS)
    asked = options.parse_args()
    answers = msgspec.json.decode(asked.file.read_bytes(), type=dict[str, JitAnswer])
    for name, answer in answers.items():
        picture = drawn(name, thinned(answer))
        (asked.folder / f"models_jit_{name}.svg").write_text(picture)


if __name__ == "__main__":
    main()
