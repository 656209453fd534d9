"""A file of ONNX as what is sent to a gateway."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from cli.models.dimensions import written
from cli.models.sending import ImportedModel, Told
from kernelzoo.domain.target import TargetKind
from kernelzoo.domain.workload import ProgramWorkload


def imported(
    file: Path,
    name: str,
    dimensions: tuple[Mapping[str, int], ...],
    weights: Path,
    told: Told,
    targets: Sequence[TargetKind] = (TargetKind.WASM,),
) -> ImportedModel:
    """Writes the weights of all plans to the file `weights`. Raises InvalidInput or
    UnsupportedModel for what cannot be imported.
    """
    # ONNX and NumPy take half a second to load, which the other commands need not wait for.
    from services.tuner.graph.fuse import Rules
    from services.tuner.graph.models import plan_model

    told(f"importing {file.name} for {'; '.join(map(written, dimensions))}")
    # No template of webgpu computes attention as one program.
    rules = Rules(attention=TargetKind.WEBGPU not in targets)
    model = plan_model(file, dimensions, name, rules)
    told("writing the weights")
    model.weights.write(weights)
    programs = (each for each in model.workloads if isinstance(each, ProgramWorkload))
    return ImportedModel(
        plans=model.plans,
        golden=model.golden,
        weights=weights,
        programs={each.key: str(each.program) for each in programs},
    )
