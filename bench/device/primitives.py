"""Measures what each primitive is worth on this device, and whether devices agree (nnJIT section
5.1).

    python -m bench.device.primitives [--browser firefox] [--json FILE]
    python -m bench.device.primitives --compare laptop.json phone.json

Files to compare are reports of earlier runs, on other devices or in other browsers.
"""

import json
import subprocess
from argparse import Namespace
from base64 import b64encode
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.busy import CpuUsage
from bench.options import parser, run
from bench.report import CannotMeasure, Cell, Claim, Report, machine
from fixtures.blank import BROWSERS, blank_site
from kernelzoo.domain.tolerance import comparison_tolerance
from kernelzoo.domain.workload import Workload
from services.tuner.compile import compilation
from services.tuner.microbench.offline import (
    WORKLOAD,
    Faster,
    Point,
    PrimitiveTrial,
    faster,
    findings,
    plan,
)

BUNDLER = Path(__file__).parents[2] / "client" / "bundle-page.js"
IN_PAGE = """async ([code, request]) => {
  const url = URL.createObjectURL(new Blob([code], { type: "text/javascript" }));
  const { measureTrials } = await import(url);
  return { engine: navigator.userAgent, results: await measureTrials(request) };
}"""


def measure(options: Namespace) -> Report:
    """A report of this device, or of the reports that are to be compared."""
    if options.compare:
        return comparison({path.stem: json.loads(path.read_text()) for path in options.compare})
    answer, busy_cores = _in_browser(options.browser, _request(options.rounds))
    rows = [_row(result) for result in answer["results"]]
    wrong = [row["primitive"] for row in rows if not _is_right(row)]
    if wrong:
        raise CannotMeasure(f"settings of {', '.join(map(str, wrong))} give different outputs")
    return Report(
        name=f"primitives of {WORKLOAD}",
        machine=machine(engine=answer["engine"], others_busy_cores=busy_cores),
        rows=rows,
        claims=[Claim.at_least("two threads over one", _threads(rows), "x", 1.8)],
    )


def _request(rounds: int) -> dict[str, Any]:
    return {"rounds": rounds, "trials": [_trial(trial) for trial in plan()]}


def _trial(trial: PrimitiveTrial) -> dict[str, Any]:
    workload = Workload.parse(trial.workload)
    return {
        "primitive": trial.primitive,
        "tensors": [
            {"name": t.name, "role": t.role, "dtype": t.dtype, "shape": list(t.shape), "limit": 0}
            for t in workload.tensors
        ],
        "tolerance": comparison_tolerance(workload),
        "base": _point(workload, trial.base),
        "advanced": _point(workload, trial.advanced),
    }


def _point(workload: Workload, point: Point) -> dict[str, Cell]:
    artifact = compilation(point.candidate(workload), point.switches).artifact
    return {
        "body": b64encode(artifact.body).decode(),
        "scratch_bytes": artifact.manifest.scratch_bytes,
        "range_extent": artifact.manifest.range_extent,
        "slices": point.slices,
        "threads": point.threads,
    }


def _in_browser(name: str, request: dict[str, Any]) -> tuple[Any, float]:
    """The page's answer, and how many cores others kept busy meanwhile."""
    bundle = subprocess.run(
        ["node", BUNDLER, "bench/primitives.ts"], check=True, capture_output=True, text=True
    )
    code = Path(bundle.stdout.strip()).read_text()
    with blank_site() as url, BROWSERS[name]() as page:
        page.goto(url)
        before = CpuUsage.now()
        answer = page.evaluate(IN_PAGE, [code, request])
        return answer, CpuUsage.now().others_since(before)


def _row(result: Mapping[str, Any]) -> dict[str, Cell]:
    ratio = result["baseMs"] / result["advancedMs"]
    return {
        "primitive": result["primitive"],
        "base ms": result["baseMs"],
        "advanced ms": result["advancedMs"],
        "ratio": ratio,
        "faster": str(faster(ratio)),
        "difference": result["difference"],
    }


def _is_right(row: Mapping[str, Cell]) -> bool:
    difference = row["difference"]
    return isinstance(difference, int | float) and difference <= 1


def _threads(rows: Sequence[Mapping[str, Cell]]) -> float:
    (ratio,) = (row["ratio"] for row in rows if row["primitive"] == "threads")
    assert isinstance(ratio, float)
    return ratio


def comparison(reports: Mapping[str, Mapping[str, Any]]) -> Report:
    """For each primitive the ratio on every device, and what that means for the space."""
    ratios = {
        device: {row["primitive"]: row["ratio"] for row in report["rows"]}
        for device, report in reports.items()
    }
    return Report(
        name=f"primitives on {len(ratios)} devices",
        machine={},
        rows=[
            {
                "primitive": finding.primitive,
                **finding.ratios,
                "in the space": _meaning(finding.fixed),
            }
            for finding in findings(ratios)
        ],
        claims=[],
    )


def _meaning(fixed: Faster | None) -> str:
    match fixed:
        case None:
            return "depends on the device"
        case Faster.EQUAL:
            return "makes no difference"
        case _:
            return f"fixed: {fixed}"


if __name__ == "__main__":
    arguments = parser("The worth of each primitive on this device.")
    arguments.add_argument("--browser", choices=BROWSERS, default="chromium")
    arguments.add_argument("--rounds", type=int, default=15)
    arguments.add_argument("--compare", type=Path, nargs="+", metavar="FILE")
    run(arguments, measure, tiny=("--rounds", "1"))
