"""Fetches a model as pages of some classes are given it, and checks it here."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from pydantic import BaseModel

from cli.gateway_client import GatewayClient
from cli.models.checking import Checked, check, needed
from cli.models.dimensions import Dimensions, written
from cli.models.sending import Told
from kernelzoo.domain.device import DeviceClass
from kernelzoo.domain.dtype import DType
from kernelzoo.domain.target import TargetKind
from kernelzoo.errors import InvalidInput, StackError
from kernelzoo.formats.bundle import any_classes
from kernelzoo.formats.plans import read_plan
from services.gateway.wire.models import ModelDocument, ModelManifest, PlanWire
from services.tuner.graph.storage import plain_file


class CallFinding(BaseModel):
    """A call whose served kernel differs from the default one by more than the tolerance."""

    label: str
    workload: str
    candidate: str
    difference: float | None


class ModelFinding(BaseModel):
    """Differences are in parts of an output's largest magnitude; null where one is no number."""

    device_class: str
    dimensions: dict[str, int]
    right: bool
    tolerance: float
    default: dict[str, float | None]
    served: dict[str, float | None]
    calls: list[CallFinding]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassChecked:
    device_class: str
    dimensions: Dimensions
    checked: Checked

    @property
    def told(self) -> ModelFinding:
        found = self.checked
        return ModelFinding(
            device_class=self.device_class,
            dimensions=dict(self.dimensions),
            right=found.right,
            tolerance=found.tolerance,
            default=_numbers(found.default),
            served=_numbers(found.served),
            calls=[
                CallFinding(
                    label=each.label,
                    workload=each.workload,
                    candidate=each.candidate,
                    difference=_number(each.difference),
                )
                for each in found.calls
            ],
        )

    @property
    def lines(self) -> tuple[str, ...]:
        found = self.checked
        verdict = "right" if found.right else "WRONG"
        head = (
            f"{self.device_class}, {written(self.dimensions)}: {verdict}; default kernels "
            f"{_worst(found.default)}, served kernels {_worst(found.served)} "
            f"of {found.tolerance:.0e} allowed"
        )
        calls = (
            f"  {each.label}: {each.candidate[:12]} of {each.workload} is off by "
            f"{each.difference:.1e}; `kernelzoo zoo show {each.workload}` has its artifact, "
            "`kernelzoo zoo deny` takes it back"
            for each in found.calls
        )
        return (head, *calls)


def check_model(
    gateway: GatewayClient,
    name: str,
    wanted: Sequence[Dimensions],
    classes: Sequence[str],
    told: Told,
) -> Iterator[ClassChecked]:
    """Checks each plan that has some of the `wanted` dimensions, on each class."""
    model = gateway.model(name)
    given = [_wasm(each) for each in classes] or _usual(gateway, name)
    suited = [plan for plan in model.plans if plan.dtype is DType.F32]
    plans = [plan for plan in suited if any(_has(plan, each) for each in wanted)]
    if not plans:
        have = "; ".join(written(plan.dimensions) for plan in model.plans)
        raise InvalidInput(f"{name} has no such plan; it has {have}")
    for plan in plans:
        for device_class in given:
            told(f"checking {written(plan.dimensions)} on {device_class}")
            yield ClassChecked(
                device_class=device_class,
                dimensions=plan.dimensions,
                checked=_check(gateway, model, plan, device_class),
            )


def _check(
    gateway: GatewayClient, model: ModelDocument, plan: PlanWire, device_class: str
) -> Checked:
    body = gateway.model_manifest_bytes(model.name, device_class, plan.dimensions)
    manifest = ModelManifest.model_validate_json(body)
    if manifest.missing:
        raise StackError(
            f"{len(manifest.missing)} kernels of {model.name} are not compiled yet for "
            f"{device_class}, {manifest.missing[0]} among them; wait a moment, or read the log of "
            "the compile worker"
        )
    kernels = needed(tuple(manifest.kernels.values()))
    packs = {
        layout.pack.sha256: layout.pack for each in kernels.values() for layout in each.layouts
    }
    read = read_plan(gateway.file(plan.plan))
    return check(
        read,
        manifest.kernels,
        {name: gateway.artifact(each) for name, each in (kernels | packs).items()},
        plain_file(read, gateway.file(manifest.weights)),
        gateway.file(manifest.golden),
    )


def _usual(gateway: GatewayClient, name: str) -> list[str]:
    """Any device, and every class that has a confirmed kernel of the model."""
    voted = [each.device_class for each in gateway.model_coverage(name).coverage if each.confirmed]
    anyone = [classes[0] for classes in any_classes() if len(classes) == 1]
    return list(dict.fromkeys((*anyone, *voted)))


def _wasm(text: str) -> str:
    if DeviceClass.parse(text).target.kind is not TargetKind.WASM:
        raise InvalidInput(f"--class {text} is not of wasm, on which models run")
    return text


def _has(plan: PlanWire, wanted: Dimensions) -> bool:
    return all(plan.dimensions.get(name) == extent for name, extent in wanted.items())


def _worst(differences: Mapping[str, float]) -> str:
    return f"{max(differences.values(), default=0.0):.1e}"


def _numbers(differences: Mapping[str, float]) -> dict[str, float | None]:
    return {name: _number(each) for name, each in differences.items()}


def _number(difference: float) -> float | None:
    return difference if difference < float("inf") else None
