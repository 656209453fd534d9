"""Kernel Tuner's two files: T4 results (schema 1.0.0) and the cache that its simulator replays.

Times are in milliseconds. Both files name the workload and the device class, so that what we wrote
is read back without being told.
"""

import json
from collections.abc import Iterator

from kernelzoo.domain.measurement import Outcome
from kernelzoo.domain.workload import Workload, WorkloadKey, is_program
from kernelzoo.formats import reading
from kernelzoo.formats.results import CandidateTrial, ClassResults, TunerClaim

T4_VERSION = "1.0.0"

_INVALIDITY = {
    Outcome.OK: "correct",
    Outcome.VALIDATE: "compile",
    Outcome.COMPILE: "compile",
    Outcome.RUN: "runtime",
    Outcome.COMPARE: "correctness",
    Outcome.TIMEOUT: "timeout",
}
_ERROR = {
    Outcome.VALIDATE: "CompilationFailedConfig",
    Outcome.COMPILE: "CompilationFailedConfig",
    Outcome.RUN: "RuntimeFailedConfig",
    Outcome.COMPARE: "RuntimeFailedConfig",
    Outcome.TIMEOUT: "RuntimeFailedConfig",
}
"""The cache knows three errors, and none for wrong output."""

_MS = 1e-6


def t4(results: ClassResults) -> str:
    document = {
        "schema_version": T4_VERSION,
        "metadata": {
            "timeunit": "milliseconds",
            "kernel_name": results.workload_key,
            "device_name": results.device_class,
        },
        "results": [_t4_trial(trial) for trial in results.trials],
    }
    return json.dumps(document, indent=1) + "\n"


def cache(results: ClassResults) -> str:
    """A cache file for one kind of config: see `ClassResults.by_settings`."""
    columns = tuple(zip(*(trial.config for trial in results.trials), strict=True))
    document = {
        "device_name": results.device_class,
        "kernel_name": results.workload_key,
        "problem_size": _problem_size(results.workload_key),
        "tune_params_keys": list(results.parameters),
        "tune_params": {
            column[0][0]: sorted({value for _, value in column}, key=str) for column in columns
        },
        "objective": "time",
        "cache": {_cache_key(trial): _cache_trial(trial) for trial in results.trials},
    }
    return json.dumps(document, indent="") + "\n"


def _problem_size(key: WorkloadKey) -> list[int]:
    """Empty for a program, whose key names no extents."""
    return [] if is_program(key) else list(Workload.parse(key).extents)


def read_t4(text: str) -> tuple[TunerClaim, ...]:
    """Failures are passed over. Raises InvalidInput for what is no T4 file."""
    document = reading.table(reading.parse(text, "a T4 file"), "a T4 file")
    metadata = reading.table(document.get("metadata", {}), "metadata")
    named = {
        "workload_key": reading.text(metadata.get("kernel_name", ""), "kernel_name"),
        "device": reading.text(metadata.get("device_name", ""), "device_name"),
    }
    return tuple(
        TunerClaim(config=reading.config(configuration.items()), time=time, **named)
        for configuration, time in _t4_times(document)
    )


def read_cache(text: str) -> tuple[TunerClaim, ...]:
    """Failures are passed over. Raises InvalidInput for what is no cache file."""
    document = reading.table(reading.parse(_closed(text), "a cache file"), "a cache file")
    keys = reading.row(document.get("tune_params_keys"), "tune_params_keys")
    names = [reading.text(name, "a name in tune_params_keys") for name in keys]
    reading.refuse_objective(document.get("objective", "time"))
    trials = reading.table(document.get("cache"), "cache")
    if len(trials) > reading.MAX_TRIALS:
        reading.row(list(trials), "cache")
    return tuple(
        TunerClaim(
            workload_key=reading.text(document.get("kernel_name", ""), "kernel_name"),
            device=reading.text(document.get("device_name", ""), "device_name"),
            config=reading.config((name, trial.get(name)) for name in names),
            time=time,
        )
        for trial in (reading.table(value, "an entry of cache") for value in trials.values())
        if (time := reading.time(trial.get("time"))) is not None
    )


def _t4_trial(trial: CandidateTrial) -> dict[str, object]:
    measured = trial.outcome is Outcome.OK
    return {
        "timestamp": trial.measured_at,
        "configuration": dict(trial.config),
        "objectives": ["time"],
        "times": {
            "compilation_time": trial.compile_ns * _MS,
            "runtimes": [time_ns * _MS for time_ns in trial.times_ns],
            "framework": 0.0,
            "search_algorithm": 0.0,
            "validation": 0.0,
        },
        "invalidity": _INVALIDITY[trial.outcome],
        "correctness": float(trial.outcome is not Outcome.COMPARE),
        "measurements": [{"name": "time", "value": trial.median_ns * _MS, "unit": "ms"}]
        if measured
        else [],
    }


def _t4_times(document: dict[str, object]) -> Iterator[tuple[dict[str, object], float]]:
    for value in reading.row(document.get("results"), "results"):
        trial = reading.table(value, "a result")
        if trial.get("invalidity") != "correct":
            continue
        for measured in reading.row(trial.get("measurements", []), "measurements"):
            named = reading.table(measured, "a measurement")
            time = reading.time(named.get("value"))
            if named.get("name") == "time" and time is not None:
                yield reading.table(trial.get("configuration"), "configuration"), time


def _cache_key(trial: CandidateTrial) -> str:
    return ",".join(str(value) for _, value in trial.config)


def _cache_trial(trial: CandidateTrial) -> dict[str, object]:
    """The simulator wants every one of these times; what we do not know is 0."""
    times_ms = [time_ns * _MS for time_ns in trial.times_ns]
    return {
        **dict(trial.config),
        "time": _ERROR.get(trial.outcome, trial.median_ns * _MS),
        "times": times_ms,
        "compile_time": trial.compile_ns * _MS,
        "verification_time": 0,
        "benchmark_time": sum(times_ms),
        "strategy_time": 0,
        "framework_time": 0,
        "timestamp": trial.measured_at,
    }


def _closed(text: str) -> str:
    """A cache of a session that was broken off lacks its last two brackets."""
    stripped = text.strip()
    closed = stripped.endswith(("}\n}", "}}}"))
    return stripped if closed else stripped.removesuffix(",") + "}\n}"
