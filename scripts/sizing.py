"""Writes docs/sizing.md from the results of the benchmarks: `make generate` runs it."""

import json
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "bench" / "results"
PAGE = ROOT / "docs" / "sizing.md"

DAY_S = 86_400
PEAK = 10
"""Page loads of the busiest second over those of the average one."""
BUSY = 0.5
"""Share of a core that a gateway process is planned to use at that peak."""
TUNING_SHARE = 0.001
"""Visitors whose page measures: agents ask for consent, and a class needs a few dozen of them."""
MEASUREMENTS = 40
"""Measurements of a visitor that tunes: the candidates of one lite space."""
RETENTION_DAYS = 180
UNITS = (("TB", 1e12), ("GB", 1e9), ("MB", 1e6))
LOADS_A_DAY = (10_000, 1_000_000, 100_000_000)


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredRates:
    """Rates of one core of the machine that the benchmarks ran on."""

    cpu: str
    page_loads_per_s: float
    measurements_per_s: float
    stored_bytes: float
    compile_ms: float
    candidates: int


def measured() -> MeasuredRates:
    page_loads, acceptance, compiling = (
        _results(name) for name in ("manifest", "acceptance", "compile")
    )
    accepted = _row(acceptance, "load", "as fast as accepted")
    claims = {claim["what"]: claim["value"] for claim in compiling["claims"]}
    return MeasuredRates(
        cpu=page_loads["machine"]["cpu"],
        page_loads_per_s=_row(page_loads, "load", "flat out")["per_second"],
        measurements_per_s=accepted["per_second"] / accepted["gateway_busy"],
        stored_bytes=accepted["stored_bytes"],
        compile_ms=claims["wasm: compile one candidate, median"],
        candidates=claims["wasm: points of a lite space"],
    )


def _results(name: str) -> dict[str, Any]:
    return dict(json.loads((RESULTS / f"{name}.json").read_text()))


def _row(results: dict[str, Any], column: str, value: str) -> dict[str, Any]:
    return next(row for row in results["rows"] if row[column] == value)


def page() -> str:
    rates = measured()
    rows = "\n".join(_size(rates, loads) for loads in LOADS_A_DAY)
    space_s = rates.compile_ms * rates.candidates / 1e3
    return f"""\
# Sizing

Generated from `bench/results` by `make generate`; measured on one core of {rates.cpu}.

| what | one core |
|---|---|
| page loads answered by the gateway, without a CDN | {rates.page_loads_per_s:,.0f} a second |
| measurements accepted durably | {rates.measurements_per_s:,.0f} a second |
| stored for a measurement, with its indexes | {rates.stored_bytes:,.0f} bytes |
| compiling a lite space of {rates.candidates} candidates | {space_s:.1f} s |

What follows from it, with page loads {PEAK} times the average at the peak, gateway processes
planned to be {BUSY:.0%} busy then and one more than needed, {TUNING_SHARE:.1%} of the page loads
measuring {MEASUREMENTS} candidates each, and measurements kept for {RETENTION_DAYS} days
(`KERNELZOO_RETENTION_DAYS`):

| page loads a day | gateway processes | gateway behind a CDN | compile workers | database |
|---:|---:|---:|---:|---:|
{rows}

Behind a CDN a manifest is asked for once a minute and class, whatever the traffic. A compile worker
is busy only while a workload is new: one serves any of these.
"""


def _size(rates: MeasuredRates, loads: int) -> str:
    peak = loads / DAY_S * PEAK
    gateways = 1 + ceil(peak / (rates.page_loads_per_s * BUSY))
    stored = loads * TUNING_SHARE * MEASUREMENTS * RETENTION_DAYS * rates.stored_bytes
    return f"| {loads:,} | {gateways} | 2 | 1 | {_bytes(stored)} |"


def _bytes(amount: float) -> str:
    unit, size = next((each for each in UNITS if amount >= each[1]), UNITS[-1])
    return f"{ceil(amount / size):,} {unit}"


if __name__ == "__main__":
    PAGE.write_text(page())
