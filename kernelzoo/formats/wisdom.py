"""Kernel Launcher's wisdom, version 1.0: a header line, then one line for each configuration.

An application asks for a tuning key, and gets the configuration of its device with the nearest
problem size. A tuning key is therefore an operator, not a shape; it carries the names of the
settings, since all lines of a file have the same.
"""

import json
import re

from kernelzoo.domain.operators import OPERATORS
from kernelzoo.domain.workload import Workload, workload_key
from kernelzoo.errors import InvalidInput
from kernelzoo.formats import reading
from kernelzoo.formats.results import ClassResults, File, TunerClaim

VERSION = "1.0"
AXES = 3
"""A problem size has at most three; an operator with more has its whole key in the tuning key."""


def wisdom(every: tuple[ClassResults, ...]) -> tuple[File, ...]:
    """One file for each tuning key, with the measured candidates of all shapes and devices."""
    lines: dict[str, list[str]] = {}
    for results in (kind for each in every for kind in each.by_settings()):
        key = tuning_key(results.workload, results.parameters)
        lines.setdefault(key, [_header(key, results.parameters)]).extend(_lines(results))
    return tuple(
        File(name=f"{_sanitised(key)}.wisdom", text="\n".join(text) + "\n")
        for key, text in lines.items()
    )


def tuning_key(workload: Workload, parameters: tuple[str, ...]) -> str:
    operator, dtype, *_ = workload.key.split(":")
    sized = 0 < len(workload.extents) <= AXES and not workload.constant
    stem = f"{operator}:{dtype}" if sized else workload.key
    return f"{stem}:{'-'.join(parameters)}"


def read_wisdom(text: str) -> tuple[TunerClaim, ...]:
    """Raises InvalidInput for what is no wisdom of version 1.0."""
    first, *rest = text.splitlines() or [""]
    header = reading.table(reading.parse(first, "the header of a wisdom file"), "the header")
    if header.get("version") != VERSION:
        raise InvalidInput(f"wisdom of version {str(header.get('version'))[:20]!r}; use {VERSION}")
    names = reading.row(header.get("tunable_parameters"), "tunable_parameters")
    reading.refuse_objective(header.get("objective"))
    key = reading.text(header.get("key"), "key")
    lines = (reading.table(reading.parse(line, "a line"), "a line") for line in rest if line)
    return tuple(claim for line in lines if (claim := _claim(key, names, line)) is not None)


def _header(key: str, parameters: tuple[str, ...]) -> str:
    return json.dumps(
        {
            "version": VERSION,
            "key": key,
            "objective": "time",
            "tunable_parameters": list(parameters),
        }
    )


def _lines(results: ClassResults) -> list[str]:
    """Writes a line for each config that was measured, the fastest last: a reader without a clock
    keeps the last."""
    extents = results.workload.extents
    measured = [trial for trial in results.trials if trial.times_ns]
    return [
        json.dumps(
            {
                "config": [value for _, value in trial.config],
                "problem_size": list(extents) if len(extents) <= AXES else [],
                "environment": {"device_name": results.device_class},
                "time": trial.median_ns * 1e-6,
            }
        )
        for trial in sorted(measured, key=lambda trial: -trial.median_ns)
    ]


def _claim(key: str, names: list[object], line: dict[str, object]) -> TunerClaim | None:
    time = reading.time(line.get("time"))
    values = reading.row(line.get("config"), "config")
    if len(values) != len(names):
        raise InvalidInput(f"a line has {len(values)} settings where the header names {len(names)}")
    environment = reading.table(line.get("environment", {}), "environment")
    if time is None:
        return None
    return TunerClaim(
        workload_key=_key_of(key, reading.row(line.get("problem_size", []), "problem_size")),
        device=reading.text(environment.get("device_name", ""), "device_name"),
        config=reading.config(zip(names, values, strict=True)),
        time=time,
    )


def _key_of(key: str, problem_size: list[object]) -> str:
    """'' for a tuning key of others."""
    match key.split(":"):
        case [operators, dtype, _] if operators.split("+")[0] in OPERATORS:
            extents = tuple(size for size in problem_size if type(size) is int)
            return Workload.of(operators, extents, dtype).key
        case [operators, dtype, *rest, _] if rest:
            return workload_key(":".join((operators, dtype, *rest)))
    return ""


def _sanitised(key: str) -> str:
    """Names the file of a key as Kernel Launcher does."""
    return re.sub(r"[^0-9A-Za-z_.-]", "_", key)
