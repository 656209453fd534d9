"""Turns what the WebGPU page answered into rows and claims."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from bench.gpu.answer import GpuAnswer, PageAnswer
from bench.gpu.cases import CASES, GpuCase
from bench.gpu.standings import (
    LIMIT,
    OURS,
    READING,
    GpuStanding,
    GpuStandings,
    gpu_standings,
)
from bench.report import Cell, Claim, Report

ON_CPU = ("google", "swiftshader")
"""An adapter that is a CPU: there a kernel is to be so much faster than the better peer."""
ON_CPU_SPEEDUP = 2.0

SPACE = (20, 80)
MOST_COMPILE_MS = 10.0
FIRST_WITHIN = 0.95
ADAPTER_LIMITS = (
    "maxComputeInvocationsPerWorkgroup",
    "maxComputeWorkgroupStorageSize",
    "maxStorageBufferBindingSize",
)


def gpu_report(answer: GpuAnswer, machine: Mapping[str, Cell]) -> Report:
    held = [gpu_standings(contest) for contest in answer.contests]
    adapter = (answer.adapter.vendor, answer.adapter.architecture)
    wanted = {each.contest.case: _wanted(each.contest.case, adapter) for each in held}
    return Report(
        name="kernels-webgpu",
        machine={**machine, **adapter_facts(answer)},
        rows=[row for each in held for row in _rows(each)],
        claims=[claim for each in held for claim in _claims(each, wanted[each.contest.case])],
    )


def _wanted(name: str, adapter: tuple[str, str]) -> GpuCase:
    """Returns what a case should reach on this adapter."""
    case = CASES[name]
    return replace(case, speedup=ON_CPU_SPEEDUP, of_limit=None) if adapter == ON_CPU else case


def adapter_facts(answer: PageAnswer) -> dict[str, Cell]:
    adapter = answer.adapter
    return {
        "date": answer.date[:10],
        "commit": answer.commit or None,
        "browser": answer.browser.rpartition(") ")[2],
        "vendor": adapter.vendor,
        "architecture": adapter.architecture,
        "subgroups": f"{adapter.subgroup_min_size} to {adapter.subgroup_max_size}",
        "features": " ".join(adapter.features),
        **{name: adapter.limits.get(name) for name in ADAPTER_LIMITS},
        **answer.peers,
    }


def _rows(held: GpuStandings) -> Iterator[dict[str, Cell]]:
    for name, standing in held.found.items():
        yield _row(held, name, standing)
    for name, note in _notes(held).items():
        yield _empty_row() | {"workload": held.contest.case, "what": name, "note": note}


def _notes(held: GpuStandings) -> dict[str, str]:
    """Says why contestants are missing; of candidates that failed, the first."""
    notes = dict.fromkeys(held.wrong, "its output is wrong") | held.contest.failures
    failed = next((each for each in held.contest.screened if each.failure), None)
    if failed is not None:
        notes["candidate"] = f"{failed.config}: {failed.failure}"
    return notes


COLUMNS = (
    *("workload", "what", "kernel_us", "call_us", "batch_us", "profile_us", "spread"),
    *("gflops", "of_limit", "gb_s", "of_memory", "kernel_x", "call_x", "note"),
)


def _empty_row() -> dict[str, Cell]:
    return dict.fromkeys(COLUMNS)


def _row(held: GpuStandings, name: str, standing: GpuStanding) -> dict[str, Cell]:
    """`kernel_x` and `call_x`: its time over ours, kernel against kernel, and call against call."""
    result, limit = standing.result, held.limit_gflops
    return {
        "workload": held.contest.case,
        "what": name,
        "kernel_us": standing.kernel_ns / 1e3,
        "call_us": _us(standing.call_ns),
        "batch_us": _us(standing.batched_ns),
        "profile_us": _us(result.profiled_ns),
        "spread": standing.kernel_spread,
        "gflops": standing.gflops or None,
        "of_limit": standing.gflops / limit if limit and standing.gflops else None,
        "gb_s": _bandwidth(held, standing),
        "of_memory": _of_memory(held, standing),
        "kernel_x": _kernel_ratio(held, standing),
        "call_x": _call_ratio(held, standing),
        "note": _note(held) if name == OURS else "",
    }


def _us(ns: float | None) -> float | None:
    return None if ns is None else ns / 1e3


def _note(held: GpuStandings) -> str:
    assert held.ours is not None
    space = held.space
    if space is None:
        return held.ours.config
    shares = f"first {space.default_share:.0%}, median {space.median_share:.0%}"
    return f"{held.ours.config}; best of {space.tried}, {shares}"


def _bandwidth(held: GpuStandings, standing: GpuStanding) -> float | None:
    """10^9 bytes a second, where memory is the limit: of weights, or of all that is moved."""
    memory = held.memory
    if memory is None or standing.result.name.startswith(LIMIT):
        return None
    if memory.result.name == READING or standing is memory:
        return memory.result.bytes / standing.kernel_ns
    return CASES[held.contest.case].workload.bytes_moved / standing.kernel_ns


def _of_memory(held: GpuStandings, standing: GpuStanding) -> float | None:
    """Share of the bandwidth of a loop that reads, or copies, and does nothing else."""
    own = _bandwidth(held, standing)
    if held.memory is None or own is None:
        return None
    return own / (held.memory.result.bytes / held.memory.kernel_ns)


def _kernel_ratio(held: GpuStandings, standing: GpuStanding) -> float | None:
    if held.ours is None or standing.call_ns is None:
        return None
    return standing.kernel_ns / held.ours.kernel_ns


def _call_ratio(held: GpuStandings, standing: GpuStanding) -> float | None:
    if held.ours is None or held.ours.least_call_ns is None or standing.least_call_ns is None:
        return None
    return standing.least_call_ns / held.ours.least_call_ns


def _claims(held: GpuStandings, case: GpuCase) -> Iterator[Claim]:
    name = case.name
    wrong = len(held.wrong)
    yield Claim.at_most(f"{name}: outputs that are wrong", wrong, "", 0)
    if held.ours is None:
        return
    yield from _speedups(held, case)
    if case.of_limit is not None and held.limit_gflops:
        share = held.ours.gflops / held.limit_gflops
        what = f"{name}: share of the register-only limit"
        yield Claim.at_least(what, share, "", case.of_limit)
    yield from _space_claims(held)


def _speedups(held: GpuStandings, case: GpuCase) -> Iterator[Claim]:
    kernels = [ratio for each in held.peers if (ratio := _kernel_ratio(held, each)) is not None]
    calls = [ratio for each in held.peers if (ratio := _call_ratio(held, each)) is not None]
    wanted = case.speedup
    if wanted is None or not kernels or not calls:
        return
    yield Claim.at_least(f"{case.name}: kernel, faster than the better", min(kernels), "×", wanted)
    yield Claim.at_least(f"{case.name}: call, faster than the better", min(calls), "×", wanted)


def _space_claims(held: GpuStandings) -> Iterator[Claim]:
    space, name = held.space, held.contest.case
    if space is None:
        return
    compile_ms = held.contest.compile_ms
    yield Claim.at_most(f"{name}: compiling a candidate, median", compile_ms, "ms", MOST_COMPILE_MS)
    yield Claim.at_most(f"{name}: candidates that failed", space.failed, "", 0)
    least, most = SPACE
    yield Claim.at_least(f"{name}: candidates for this adapter", space.tried, "", least)
    yield Claim.at_most(f"{name}: candidates for this adapter", space.tried, "", most)
    what = f"{name}: best of the first 40 against the best of all"
    yield Claim.at_least(what, space.first_share, "", FIRST_WITHIN)
