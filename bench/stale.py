"""Lists results that are older than the code that they measure: `python -m bench.stale`.

A result in JSON carries the commit that it was measured at. It is stale when a commit since then
changed one of the sources of its benchmark, and of unknown age when it has no commit, or one that
is not in the history of this checkout. Results that are text alone have none.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from bench.report import CHANGED, REPOSITORY, git

RESULTS = Path(__file__).parent / "results"

_COMPILER = ("services/tuner", "kernelzoo/domain")
_KERNELS = (*_COMPILER, "client/src/engine", "client/src/timing", "client/src/measurer")
_EXECUTOR = ("client/src/backend", "client/src/executor", "client/src/weights", "client/src/model")
_SERVICES = ("services/gateway", "services/aggregator", "workers", "kernelzoo", "cli")

SOURCES: dict[str, tuple[str, ...]] = {
    "ablation": ("bench/kernels/ablation.py", *_KERNELS, "bench/page/src"),
    "acceptance": ("bench/serving/acceptance.py", *_SERVICES),
    "ambush": (
        *("bench/crowd/ambush.py", "fixtures/paper_crowd.py", "cli/simulate"),
        *("services/aggregator", "services/gateway/lending.py", "kernelzoo/store"),
    ),
    "chain": (
        "bench/crowd/chain.py",
        *("services/gateway/chain.py", "services/aggregator", "kernelzoo/store"),
        *("services/tuner/cost_model", "bench/crowd/chain_worlds.py", "bench/crowd/chain_zoo.py"),
    ),
    "cold": ("bench/serving/cold.py", *_SERVICES, *_COMPILER, "client/src"),
    "compile": ("bench/kernels/compile.py", *_COMPILER),
    "cost_model": ("bench/crowd/cost_model.py", "services/tuner/cost_model", "fixtures/recorded"),
    "kernels_wasm": (
        "bench/kernels/wasm.py",
        *_KERNELS,
        "client/src/probe",
        "client/src/threads",
        "bench/page/src",
    ),
    "kernels_webgpu": (
        "bench/kernels/webgpu.py",
        *_KERNELS,
        "client/src/backend/webgpu",
        "bench/page/src/webgpu",
        "bench/gpu/job.py",
    ),
    "decode_wasm": (
        "bench/models/decode_wasm.py",
        *_KERNELS,
        "client/src/language",
        *_EXECUTOR,
        "bench/page/src/decode",
    ),
    "decode_webgpu": (
        "bench/models/decode_webgpu.py",
        "bench/models/offering.py",
        *_COMPILER,
        *_EXECUTOR,
        "client/src/language",
        "bench/page/src/decode",
    ),
    "finals": (
        *("bench/crowd/finals.py", "fixtures/paper_stack.py", "fixtures/recorded", "cli/simulate"),
        *("services/aggregator", "services/gateway/lending.py", "kernelzoo/store"),
    ),
    "finals_browsers": (
        "bench/crowd/finals_browsers.py",
        *("bench/crowd/judged_keys.py", "bench/crowd/referee.py"),
        *("services/aggregator", "services/gateway/lending.py", "kernelzoo/store"),
        *("client/src/agent", "client/src/measurer", "client/src/timing"),
    ),
    "growth": (
        "bench/serving/growth.py",
        *("bench/serving/filled_zoo.py", "bench/serving/gateway_reads.py"),
        "bench/serving/operations.py",
        *_SERVICES,
        "dashboards",
    ),
    "manifest": ("bench/serving/manifest.py", *_SERVICES),
    "page_loads": ("bench/serving/page_loads.py", *_SERVICES),
    "pressure": ("bench/serving/pressure.py", "bench/serving/attackers.py", *_SERVICES),
    "models_cold": (
        "bench/models/cold.py",
        "bench/models/costs.py",
        "bench/models/memory.py",
        "bench/models/visits.py",
        "services/aggregator/by_runs.py",
        *_KERNELS,
        *_EXECUTOR,
        "client/src/sdk",
        "client/src/tuning",
        "bench/page/src/models",
    ),
    "models_growth": (
        "bench/models/growth.py",
        *_KERNELS,
        *_EXECUTOR,
        "bench/page/src/models",
    ),
    "models_imports": (
        "bench/models/imports.py",
        "bench/models/export.py",
        "bench/models/networks.py",
        "bench/models/parts.py",
        "bench/models/weights.py",
        "services/tuner/graph",
    ),
    "models_jit": (
        "bench/models/jit.py",
        *_KERNELS,
        *_EXECUTOR,
        "client/src/tuning",
        "bench/page/src/models",
    ),
    "models_jit_pages": (
        "bench/models/jit_pages.py",
        *_SERVICES,
        *_COMPILER,
        "client/src/agent",
        "client/src/tuning",
    ),
    "models_packages": (
        "bench/models/packages.py",
        *_COMPILER,
        *_EXECUTOR,
        "bench/page/src/models",
    ),
    "models_quantised": (
        "bench/models/quantised.py",
        "fixtures/encoder.py",
        "fixtures/network_writer.py",
        "fixtures/quantised_networks.py",
        *_COMPILER,
        *_EXECUTOR,
        "bench/page/src/models",
    ),
    "models_rules": (
        "bench/models/rules.py",
        "bench/models/export.py",
        "bench/models/networks.py",
        "bench/models/parts.py",
        "services/tuner/graph",
    ),
    "models_shapes": (
        "bench/models/shapes.py",
        "fixtures/causal_decoder.py",
        "fixtures/encoder.py",
        "fixtures/language_configs.py",
        "fixtures/language_onnx.py",
        "fixtures/network_writer.py",
        *_COMPILER,
        *_EXECUTOR,
        "bench/page/src/models",
    ),
    "models_stored_weights": (
        "bench/models/stored_weights.py",
        "bench/models/networks.py",
        "services/tuner/graph",
    ),
    "models_wasm": (
        "bench/models/wasm.py",
        "bench/models/memory.py",
        "bench/models/tensorflow.py",
        *_KERNELS,
        *_EXECUTOR,
        "client/src/sdk",
        "client/src/threads",
        "bench/page/src/models",
    ),
    "models_webgpu": (
        "bench/models/webgpu.py",
        *_COMPILER,
        *_EXECUTOR,
        "bench/page/src/models",
        "bench/models/gpu_site.py",
        "bench/models/offering.py",
        "bench/models/onnx_f16.py",
    ),
    "primitives": ("bench/device/primitives.py", *_COMPILER, "client/src/engine", "client/bench"),
    "sharing": ("bench/crowd/sharing.py", *_SERVICES),
    "simulate": ("bench/crowd/simulate.py", *_SERVICES),
    "small_machine": (
        "bench/serving/small_machine.py",
        *_SERVICES,
        *_COMPILER,
        "client/src/backend/webgpu",
        "client/src/agent",
        "client/src/measurer",
    ),
    "streams": ("bench/serving/streams.py", *_SERVICES),
    "strangers": ("bench/crowd/strangers.py", *_SERVICES),
    "stability": (
        "bench/device/stability.py",
        "client/src/probe",
        "client/src/device",
        "services/tuner/microbench",
    ),
}
"""By the name of its results, the module of a benchmark, then what else decides its figures."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Age:
    """`commit`: '' where none is known. `since`: subjects of later commits to what was measured,
    the latest first."""

    result: str
    commit: str
    since: tuple[str, ...]

    @property
    def stale(self) -> bool:
        return not self.commit or bool(self.since)

    @property
    def line(self) -> str:
        if not self.commit:
            return f"{self.result}: of unknown commit"
        if not self.since:
            return f"{self.result}: current, at {self.commit[:12]}"
        return (
            f"{self.result}: commits to its sources since {self.commit[:12]}: "
            f"{len(self.since)}, the last {self.since[0]}"
        )


def benchmark_of(result: str) -> str:
    """kernels_webgpu of kernels_webgpu_h200.json. Raises KeyError for a file of no benchmark."""
    stem = Path(result).stem
    fitting = [name for name in SOURCES if stem == name or stem.startswith(f"{name}_")]
    if not fitting:
        raise KeyError(f"{result} is of no benchmark in bench.stale.SOURCES; add its sources")
    return max(fitting, key=len)


def ages(results: Path = RESULTS) -> Iterator[Age]:
    """The age of every result, by name; the text beside a JSON file is as old as that."""
    for path in sorted(results.iterdir()):
        name = benchmark_of(path.name) if path.suffix in (".json", ".txt") else ""
        if not name or (path.suffix == ".txt" and path.with_suffix(".json").exists()):
            continue
        told = json.loads(path.read_text())["machine"] if path.suffix == ".json" else {}
        commit = told.get("commit") or ""
        yield _age(path.name, commit, SOURCES[name])


def _age(result: str, commit: str, sources: tuple[str, ...]) -> Age:
    """Changes that were not committed when it was measured are unknown."""
    if not commit or commit.endswith(CHANGED):
        return Age(result=result, commit="", since=())
    try:
        found = git("log", "--format=%h %s", f"{commit}..HEAD", "--", *sources)
    except subprocess.CalledProcessError:
        return Age(result=result, commit="", since=())
    return Age(result=result, commit=commit, since=tuple(found.splitlines()))


def main() -> None:
    if not (REPOSITORY / ".git").exists():
        sys.exit("results are compared with the history of a git checkout, and this is none")
    found = [age for age in ages() if age.stale]
    for age in found:
        print(age.line)
    if not found:
        print("every result is of the code that it measures")


if __name__ == "__main__":
    main()
