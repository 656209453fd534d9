"""Writes the tables of docs/plans.md from the results of benchmarks: `make generate` runs it."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from bench.models.cases import CASES
from bench.models.rules import NOTHING
from bench.report import read
from bench.stale import RESULTS

PAGE = Path(__file__).parents[1] / "docs" / "plans.md"

SHOWN = tuple(case.name for case in CASES)
"""Networks with a column of their own in the table of rules."""
TOLD = {
    "calls": "{:.0f} calls",
    "activations_mb": "{:.3g} MB",
    "weights_mb": "{:.4g} MB of weights",
    "nodes": "{:.0f} nodes",
    "gflop": "{:.3g} GFLOP",
}
WHOLE = ("calls", "activations_mb")
"""These figures are told of a network with all rules; without one all that differ are."""
EQUAL = 0.005
"""Figures that differ by a smaller share are not told."""

Row = Mapping[str, Any]


def page() -> str:
    """The page as it stands, with tables of the results."""
    text = PAGE.read_text()
    for name, rows in (("rules", _rules()), ("networks", _networks())):
        begin, end = f"<!-- {name}, by `make generate` -->\n", "\n<!-- end -->"
        before, _, rest = text.partition(begin)
        _, _, after = rest.partition(end)
        text = before + begin + "\n".join(rows) + end + after
    return text


def _rules() -> Iterator[str]:
    by_rule: dict[str, dict[str, Row]] = {}
    for row in _results("models_rules"):
        by_rule.setdefault(str(row["without"]), {})[str(row["network"])] = row
    whole = by_rule.pop(NOTHING)
    yield f"| without | {' | '.join(SHOWN)} | also in |"
    yield f"|{'---|' * (len(SHOWN) + 2)}"
    yield f"| {NOTHING} | {' | '.join(_told(whole[name], WHOLE) for name in SHOWN)} | |"
    for rule, found in by_rule.items():
        differing = {name: _differing(row, whole[name]) for name, row in found.items()}
        cells = [_told(found[name], differing[name]) for name in SHOWN]
        others = [name for name in found if name not in SHOWN and differing[name]]
        yield f"| `{rule}` | {' | '.join(cells)} | {', '.join(others)} |"


def _results(name: str) -> list[Row]:
    return list(read(RESULTS / f"{name}.json").rows)


def _told(row: Row, what: tuple[str, ...]) -> str:
    return ", ".join(TOLD[name].format(row[name]) for name in what)


def _differing(row: Row, whole: Row) -> tuple[str, ...]:
    return tuple(name for name in TOLD if abs(row[name] - whole[name]) > EQUAL * whole[name])


def _networks() -> Iterator[str]:
    yield "| network | calls | named | kernels | plan, gzip | weights | activations | GFLOP |"
    yield "|---|---|---|---|---|---|---|---|"
    for row in _results("models_imports"):
        yield (
            f"| {row['network']} | {row['calls']} | {row['named']} | {row['kernels']} "
            f"| {row['plan_gzip_bytes'] / 1e3:.1f} kB | {row['weights_mb']:.1f} MB "
            f"| {row['activations_mb']:.1f} MB | {row['gflop']:.1f} |"
        )


if __name__ == "__main__":
    PAGE.write_text(page())
