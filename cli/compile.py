"""`kernelzoo compile`: candidates of a workload as files, without a stack."""

import json
import time
from dataclasses import asdict
from pathlib import Path
from statistics import median
from typing import Annotated

import typer

from cli.listing import print_json
from cli.options import JsonOption, OperatorArgument, ShapeArgument, TargetOption
from cli.terminal import note, out
from cli.workload import parse_workload
from kernelzoo.domain.artifact import Artifact
from kernelzoo.domain.candidate import Candidate
from kernelzoo.domain.gpu import GPU_MODELS, model_of_space
from kernelzoo.domain.target import TargetKind, parse_target
from kernelzoo.errors import InvalidInput, InvalidSchedule

SUFFIX = {TargetKind.WASM: "wasm", TargetKind.WEBGPU: "wgsl", TargetKind.JAVASCRIPT: "mjs"}


def compile_workload(
    operator: OperatorArgument,
    shape: ShapeArgument = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="Directory to fill.")] = Path(),
    ordinal: Annotated[int, typer.Option(help="Which candidate of the lite space.")] = 0,
    everything: Annotated[bool, typer.Option("--all", help="All candidates.")] = False,
    target: TargetOption = "wasm",
    as_json: JsonOption = False,
    gpu_model: Annotated[
        str, typer.Option(help=f"Whose space, of webgpu: {', '.join(GPU_MODELS)}.")
    ] = "",
) -> None:
    """Compile candidates here: each becomes an artifact and a JSON file that describes it."""
    # TVM takes a second to load, which the other commands need not wait for.
    from services.tuner.schedules.registry import lite_space

    wanted = parse_target(target)
    if gpu_model and wanted is not TargetKind.WEBGPU:
        raise InvalidInput("--gpu-model chooses among the spaces of webgpu; add --target webgpu")
    space = lite_space(parse_workload(operator, shape), wanted, model_of_space(gpu_model))
    chosen = tuple(enumerate(space)) if everything else ((ordinal, _pick(space, ordinal)),)
    output.mkdir(parents=True, exist_ok=True)
    elapsed_ms = [ms for n, each in chosen if (ms := _compile(n, each, output)) is not None]
    if not elapsed_ms:
        raise InvalidSchedule(f"none of {len(chosen)} candidates could be compiled")
    if as_json:
        print_json({"output": str(output), "candidates": len(chosen), "compiled_ms": elapsed_ms})
        return
    out.print(
        f"compiled {len(elapsed_ms)} of {len(chosen)} candidates into {output}, "
        f"{median(elapsed_ms):.1f} ms each (median; the first loads the compiler)"
    )


def _pick(space: tuple[Candidate, ...], ordinal: int) -> Candidate:
    if not 0 <= ordinal < len(space):
        raise InvalidInput(
            f"candidate {ordinal} does not exist; this lite space has 0 to {len(space) - 1}"
        )
    return space[ordinal]


def _compile(ordinal: int, candidate: Candidate, directory: Path) -> float | None:
    """Milliseconds, or None for a config that turned out not to apply."""
    from services.tuner.compile import compile_candidate

    started_s = time.perf_counter()
    try:
        artifact = compile_candidate(candidate)
    except InvalidSchedule as error:
        note(f"candidate {ordinal} left out: {error}")
        return None
    elapsed_ms = (time.perf_counter() - started_s) * 1e3
    _write(directory / f"{ordinal:03d}-{candidate.candidate_id}", candidate, artifact)
    return elapsed_ms


def _write(stem: Path, candidate: Candidate, artifact: Artifact) -> None:
    stem.with_suffix(f".{SUFFIX[candidate.target]}").write_bytes(artifact.body)
    description = {
        "workload": candidate.workload.key,
        "config": dict(candidate.config),
        "sha256": artifact.sha256,
        "manifest": asdict(artifact.manifest),
    }
    stem.with_suffix(".json").write_text(json.dumps(description, indent=2) + "\n")
