"""A file of ONNX, or a folder of a language model, as what is sent to a gateway."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from cli.models.dimensions import written
from cli.models.sending import ImportedModel, Told
from kernelzoo.domain.target import TargetKind
from kernelzoo.domain.workload import ProgramWorkload
from kernelzoo.errors import InvalidInput

if TYPE_CHECKING:
    from services.tuner.graph.models import PlannedModel

CONTEXT = "context"
"""The dimension of a language model: the tokens that it has room for."""


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
    told(f"importing {file.name} for {'; '.join(map(written, dimensions))}")
    if file.is_dir() or _is_decoder(file, dimensions):
        model = _decoder(file, name, dimensions)
    else:
        model = _network(file, name, dimensions, targets)
    told("writing the weights")
    model.weights.write(weights)
    programs = (each for each in model.workloads if isinstance(each, ProgramWorkload))
    return ImportedModel(
        plans=model.plans,
        golden=model.golden,
        weights=weights,
        programs={each.key: str(each.program) for each in programs},
    )


# ONNX and NumPy take half a second to load, which the other commands need not wait for.


def _network(
    file: Path,
    name: str,
    dimensions: tuple[Mapping[str, int], ...],
    targets: Sequence[TargetKind],
) -> "PlannedModel":
    from services.tuner.graph.fuse import Rules
    from services.tuner.graph.models import plan_model

    # No template of webgpu computes attention as one program.
    rules = Rules(attention=TargetKind.WEBGPU not in targets)
    return plan_model(file, dimensions, name, rules)


def _is_decoder(file: Path, dimensions: tuple[Mapping[str, int], ...]) -> bool:
    """A step of a decoder with the extents of its cache is a network like any other."""
    from services.tuner.language.onnx_decoder import is_decoder

    return not set().union(*dimensions) - {CONTEXT} and is_decoder(file)


def _decoder(path: Path, name: str, dimensions: tuple[Mapping[str, int], ...]) -> "PlannedModel":
    from services.tuner.language.planning import plan_language_model

    if len(dimensions) > 1 or set(dimensions[0]) - {CONTEXT}:
        raise InvalidInput(
            f"{path.name} is a language model; its one dimension is --dim {CONTEXT}=2048, the "
            "tokens that it has room for"
        )
    return plan_language_model(path, name, dimensions[0].get(CONTEXT))
