"""A file of ONNX, or a folder of a language model, as what is sent to a gateway."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from cli.models.dimensions import written
from cli.models.sending import ImportedModel, Told
from kernelzoo.domain.operators.quantised import Form
from kernelzoo.domain.weight_storage import StorageType
from kernelzoo.domain.workload import ProgramWorkload
from kernelzoo.errors import InvalidInput

if TYPE_CHECKING:
    from services.tuner.graph.models import PlannedModel
    from services.tuner.graph.storing import Storing

CONTEXT = "context"
"""The dimension of a language model: the tokens that it has room for."""
MAX_ERROR = 0.01


class WeightsChoice(StrEnum):
    F32 = "f32"
    F16 = "f16"
    INT8 = "int8"
    INT4 = "int4"
    AUTO = "auto"


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedWeights:
    """How weights are stored, and by how much golden outputs may differ from those of f32."""

    choice: WeightsChoice = WeightsChoice.F32
    max_error: float = MAX_ERROR

    @property
    def storing(self) -> "Storing | None":
        """None for f32."""
        from services.tuner.graph.storing import Storing

        if self.choice is WeightsChoice.F32:
            return None
        automatic = self.choice is WeightsChoice.AUTO
        storage = None if automatic else StorageType(self.choice)
        return Storing(storage=storage, max_error=self.max_error)


AS_F32 = WantedWeights()
_FORMS = {
    WeightsChoice.F32: Form(),
    WeightsChoice.INT4: Form(),
    WeightsChoice.INT8: Form(width=8),
}
"""What matrices of language models are quantised to, also where nothing is asked for."""


def is_language_model(path: Path, dimensions: tuple[Mapping[str, int], ...]) -> bool:
    """A folder is one, and a file of a decoder; a step of a decoder with the extents of its cache
    is a network like any other."""
    from services.tuner.language.onnx_decoder import is_decoder

    if path.is_dir():
        return True
    return not set().union(*dimensions) - {CONTEXT} and is_decoder(path)


def imported(
    file: Path,
    name: str,
    dimensions: tuple[Mapping[str, int], ...],
    weights: Path,
    told: Told,
    wanted: WantedWeights = AS_F32,
) -> ImportedModel:
    """Writes the weights of all plans to the file `weights`. Raises InvalidInput or
    UnsupportedModel for what cannot be imported.
    """
    told(f"importing {file.name} for {'; '.join(map(written, dimensions))}")
    if is_language_model(file, dimensions):
        model = _decoder(file, name, dimensions, wanted)
    else:
        model = _network(file, name, dimensions, wanted)
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
    wanted: WantedWeights,
) -> "PlannedModel":
    from services.tuner.graph.models import plan_model

    return plan_model(file, dimensions, name, storing=wanted.storing)


def _decoder(
    path: Path,
    name: str,
    dimensions: tuple[Mapping[str, int], ...],
    wanted: WantedWeights,
) -> "PlannedModel":
    from services.tuner.language.planning import plan_language_model

    form = _FORMS.get(wanted.choice)
    if form is None:
        raise InvalidInput(
            "language models have weights of 4 or 8 bits: write --weights int4, which is usual, "
            "or int8"
        )
    if set().union(*dimensions) - {CONTEXT}:
        raise InvalidInput(
            f"{path.name} is a language model; its one dimension is --dim {CONTEXT}=2048, the "
            f"tokens that it has room for, or several of them, --dim {CONTEXT}=1024,8192"
        )
    return plan_language_model(path, name, [each[CONTEXT] for each in dimensions if each], form)
