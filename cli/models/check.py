"""Fetches a model as pages of some classes are given it, and checks it here."""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel

from cli.gateway_client import GatewayClient
from cli.models.checking import Checked, check, needed
from cli.models.dimensions import Dimensions, written
from cli.models.sending import Told
from kernelzoo.domain.device import DeviceClass
from kernelzoo.domain.dtype import DType
from kernelzoo.domain.precision import Precision
from kernelzoo.domain.target import BYTE_DOTS, TargetKind
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
    precision: Precision
    right: bool
    tolerance: float
    default: dict[str, float | None]
    served: dict[str, float | None]
    calls: list[CallFinding]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassChecked:
    device_class: str
    dimensions: Dimensions
    precision: Precision
    checked: Checked

    @property
    def told(self) -> ModelFinding:
        found = self.checked
        return ModelFinding(
            device_class=self.device_class,
            dimensions=dict(self.dimensions),
            precision=self.precision,
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
            f"{self.device_class}, {_of(self)}: {verdict}; default kernels "
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
            told(f"checking {_of(plan)} on {device_class}")
            yield ClassChecked(
                device_class=device_class,
                dimensions=plan.dimensions,
                precision=plan.precision,
                checked=_check(gateway, model, plan, device_class),
            )


OUTDATED_S = 1.0
MOST_BYTES = 1 << 30
"""A plan of more memory is not checked when it is added: NumPy has computed it, and `models check`
does when it is asked."""


def check_added(
    gateway: GatewayClient, name: str, weights: Mapping[Precision, Path], told: Told
) -> None:
    """Runs the plans of a model that was added through the default kernels, in wasmtime. `weights`
    are the files of those with values of f32. Raises StackError where they do not compute the
    golden outputs: no device is to blame for that."""
    model = gateway.model(name)
    for plan in model.plans:
        if plan.dtype is not DType.F32 or sum(plan.memory.values()) > MOST_BYTES:
            continue
        told(f"checking {_of(plan)} with default kernels")
        found = _check(gateway, model, plan, _anyone()[0], weights[plan.precision].read_bytes())
        wrong = [name for name, each in found.default.items() if not each <= found.tolerance]
        if wrong:
            raise StackError(_fault(name, plan, found, wrong[0]))


def _fault(name: str, plan: PlanWire, found: Checked, wrong: str) -> str:
    return (
        f"{name} is registered, but its default kernels do not compute the golden {wrong} "
        f"({_of(plan)}): it is off by {found.default[wrong]:.1e} of its largest "
        f"magnitude, and {found.tolerance:.0e} is allowed. That is a fault of this import, not of "
        "a device: pages refuse the model unless they open it with `check: false`. Report it with "
        f"the file; `kernelzoo models remove {name}` takes it back"
    )


def _check(
    gateway: GatewayClient,
    model: ModelDocument,
    plan: PlanWire,
    device_class: str,
    weights: bytes | None = None,
) -> Checked:
    """`weights` are fetched unless given."""
    manifest = _manifest(gateway, model, plan, device_class)
    if manifest.missing and weights is not None:
        # A gateway may give what it knew a moment ago, and build what it knows now.
        time.sleep(OUTDATED_S)
        manifest = _manifest(gateway, model, plan, device_class)
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
        plain_file(read, gateway.file(manifest.weights) if weights is None else weights),
        gateway.file(manifest.golden),
    )


def _manifest(
    gateway: GatewayClient, model: ModelDocument, plan: PlanWire, device_class: str
) -> ModelManifest:
    body = gateway.model_manifest_bytes(model.name, device_class, plan.dimensions, plan.precision)
    return ModelManifest.model_validate_json(body)


def _of(plan: PlanWire | ClassChecked) -> str:
    return f"{written(plan.dimensions)} of {plan.precision}"


def _usual(gateway: GatewayClient, name: str) -> list[str]:
    """Any device, and every class that has a confirmed kernel of the model."""
    voted = [each.device_class for each in gateway.model_coverage(name).coverage if each.confirmed]
    runs_here = [each for each in voted if not _byte_dots(each)]
    return list(dict.fromkeys((*_anyone(), *runs_here)))


def _anyone() -> list[str]:
    """The classes of wasm of a device that nobody knows."""
    return [classes[0] for classes in any_classes() if len(classes) == 1]


def _wasm(text: str) -> str:
    if DeviceClass.parse(text).target.kind is not TargetKind.WASM:
        raise InvalidInput(f"--class {text} is not of wasm, on which models run")
    if own := _byte_dots(text):
        raise InvalidInput(
            f"--class {text} has kernels that need {own}, which only such devices compute right; "
            f"check {text.replace(f'+{own}', '')}"
        )
    return text


def _byte_dots(device_class: str) -> str:
    """The feature of a class that wasmtime computes otherwise; '' where it has none."""
    features = DeviceClass.parse(device_class).target.features
    return next((each for each in BYTE_DOTS if each in features), "")


def _has(plan: PlanWire, wanted: Dimensions) -> bool:
    return all(plan.dimensions.get(name) == extent for name, extent in wanted.items())


def _worst(differences: Mapping[str, float]) -> str:
    return f"{max(differences.values(), default=0.0):.1e}"


def _numbers(differences: Mapping[str, float]) -> dict[str, float | None]:
    return {name: _number(each) for name, each in differences.items()}


def _number(difference: float) -> float | None:
    return difference if difference < float("inf") else None
