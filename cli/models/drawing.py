"""The time of an inference as it falls, drawn in text, with a mark for every kernel."""

from datetime import datetime

from cli.figures import duration
from services.gateway.wire.models import ModelTimeline, SwapWire

WIDTH, HEIGHT = 64, 8
EIGHTHS = " ▁▂▃▄▅▆▇█"
SERVED, LEADS = "▲", "△"
NAMED = 5
"""Kernels that are told by name: those that won most."""


def drawn(told: ModelTimeline) -> str:
    """The drawing; empty while no kernel has won anything. The area begins at 0."""
    if told.first_ms is None or not told.swaps:
        return ""
    at_s = _seconds(told.swaps)
    elapsed_ms = [told.first_ms] + [swap.expected_ms for swap in told.swaps]
    columns = [_column(seconds, at_s[-1]) for seconds in at_s]
    heights = [
        elapsed_ms[sum(column <= place for column in columns)] / max(elapsed_ms)
        for place in range(WIDTH)
    ]
    scale = {HEIGHT - 1: duration(max(elapsed_ms)), 0: "0 ms"}
    rows = [
        f"{scale.get(row, ''):>10} ┤{''.join(_cell(height, row) for height in heights)}"
        for row in reversed(range(HEIGHT))
    ]
    marks = [" "] * WIDTH
    for column, swap in zip(columns, told.swaps, strict=True):
        if marks[column] != SERVED:
            marks[column] = SERVED if swap.served else LEADS
    end = f"{at_s[-1]:,.0f} s"
    return "\n".join(
        [
            *rows,
            f"{'':>10} └{''.join(marks)}",
            f"{'':>12}0 s{end:>{WIDTH - 3}}",
            f"{'':>12}{SERVED} served to pages from then on  {LEADS} leads, too few have voted",
            *(_named(swap, seconds) for swap, seconds in _largest(told.swaps, at_s)),
        ]
    )


def _seconds(swaps: list[SwapWire]) -> list[float]:
    """Since a twentieth of all of it before the first, so that what was before is seen, too."""
    at = [datetime.fromisoformat(swap.at).timestamp() for swap in swaps]
    before_s = (at[-1] - at[0]) / 20 or 1.0
    return [each - at[0] + before_s for each in at]


def _column(seconds: float, end_s: float) -> int:
    return min(int(seconds / end_s * (WIDTH - 1)), WIDTH - 1)


def _cell(height: float, row: int) -> str:
    """The part of a row that a column fills; `height` is that of the column in rows."""
    eighths = round(height * HEIGHT * 8) - 8 * row
    return EIGHTHS[min(max(eighths, 0), 8)]


def _largest(swaps: list[SwapWire], at_s: list[float]) -> list[tuple[SwapWire, float]]:
    """The swaps that won most, in the order in which they came."""
    won = sorted(zip(swaps, at_s, strict=True), key=lambda each: _won_ms(each[0]), reverse=True)
    return sorted((each for each in won[:NAMED] if _won_ms(each[0]) > 0), key=lambda each: each[1])


def _won_ms(swap: SwapWire) -> float:
    return swap.before_ms - swap.after_ms


def _named(swap: SwapWire, seconds: float) -> str:
    return (
        f"{seconds:>9,.0f} s  {duration(swap.before_ms)} → {duration(swap.after_ms)} of an "
        f"inference: {swap.workload}, kernel {swap.candidate[:8]}"
    )
