"""The schedule families: which programs each schedules, with which settings, and how.

`lite_space` lists candidates by the first family of the table that matches a workload. `scheduled`
goes by what a candidate's config says, its setting `family`.

Listing a space must not import TVM, which takes a second. So this module imports no template: a
family's `lower` is `lower` of the module that its row names, which the first call imports.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module

from kernelzoo.domain.candidate import Candidate
from kernelzoo.domain.gpu import ANY_GPU, GpuModel
from kernelzoo.domain.operators import Family
from kernelzoo.domain.target import TargetKind, refuse_unsupported
from kernelzoo.domain.workload import KEY_DTYPES, Workload
from kernelzoo.errors import InvalidSchedule
from services.tuner.schedules.base.extents import Extents, is_pointwise
from services.tuner.schedules.base.scheduled import ScheduledProgram
from services.tuner.schedules.base.settings import Config, FamilyName
from services.tuner.schedules.conv.implicit_gemm import is_matrix_product
from services.tuner.schedules.conv.space import window_configs
from services.tuner.schedules.conv.webgpu_space import conv_configs
from services.tuner.schedules.elementwise.space import map_configs
from services.tuner.schedules.elementwise.webgpu_space import elementwise_configs
from services.tuner.schedules.gemv.config import suits
from services.tuner.schedules.gemv.space import streams_and_tiles
from services.tuner.schedules.matmul.space import tiles_configs
from services.tuner.schedules.matmul.webgpu_space import matmul_configs
from services.tuner.schedules.reduction.space import rows_configs
from services.tuner.schedules.reduction.webgpu_space import reduction_configs
from services.tuner.schedules.transpose.webgpu_space import transpose_configs
from services.tuner.schedules.webgpu_space import WebgpuConfig, webgpu_space

Lower = Callable[[Candidate], ScheduledProgram]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleFamily:
    """One way to schedule programs of one kind for one target.

    `matches` tells whether it has schedules for a workload; `space` lists candidates for a model
    of GPU (at which those for wasm do not look), the likely best first. Some of them may be of
    another family that matches as well. `lower` raises InvalidSchedule and UnsupportedProgram as
    `compile_candidate` does.
    """

    name: FamilyName
    target: TargetKind
    matches: Callable[[Workload], bool]
    space: Callable[[Workload, GpuModel], tuple[Candidate, ...]]
    lower: Lower


def lite_space(
    workload: Workload, kind: TargetKind, gpu: GpuModel = ANY_GPU
) -> tuple[Candidate, ...]:
    """The few dozen candidates of a workload that are worth measuring: valid, none twice, at least
    one, ordered by promise.

    The first that requires simd128 alone, or nothing of webgpu, is the default of devices that
    nothing is known about. A space of webgpu belongs to a model of GPU. Raises InvalidInput for a
    workload that the target has no kernels for.
    """
    refuse_unsupported(workload, kind)
    family = next(each for each in FAMILIES if each.target is kind and each.matches(workload))
    return family.space(workload, gpu)


def scheduled(candidate: Candidate) -> ScheduledProgram:
    """The candidate's loop nests, by the family that its config names.

    Raises InvalidSchedule where there is no such family, or it has no schedules for the workload.
    """
    key, target = candidate.workload.key, candidate.kind
    family = _BY_NAME.get((candidate.family, target))
    if family is None:
        known = ", ".join(name for name, each in _BY_NAME if each is target)
        raise InvalidSchedule(
            f"config setting family is {candidate.family[:40]!r} or missing; "
            f"use one of {known} for {target}"
        )
    if not family.matches(candidate.workload):
        raise InvalidSchedule(f"family {family.name} has no schedule for {key} on {target}")
    return family.lower(candidate)


def _template(path: str) -> Lower:
    """`lower` of a module under `schedules`, which is imported when it is called."""

    def lower(candidate: Candidate) -> ScheduledProgram:
        found: Lower = import_module(f"services.tuner.schedules.{path}").lower
        return found(candidate)

    return lower


def _is_contraction(workload: Workload) -> bool:
    return workload.operator.family is Family.CONTRACTION or is_pointwise(workload)


def _wasm(
    name: FamilyName,
    matches: Callable[[Workload], bool],
    configs: Callable[[Workload], Sequence[Config]],
) -> ScheduleFamily:
    def space(workload: Workload, _: GpuModel) -> tuple[Candidate, ...]:
        return tuple(config.candidate(workload) for config in configs(workload))

    return ScheduleFamily(
        name=name,
        target=TargetKind.WASM,
        matches=matches,
        space=space,
        lower=_template(f"{name}.wasm"),
    )


def _webgpu(
    name: FamilyName,
    matches: Callable[[Workload], bool],
    configs: Callable[[Workload, GpuModel], Sequence[WebgpuConfig]],
    template: str = "",
) -> ScheduleFamily:
    def space(workload: Workload, gpu: GpuModel) -> tuple[Candidate, ...]:
        return webgpu_space(configs(workload, gpu), workload, gpu)

    return ScheduleFamily(
        name=name,
        target=TargetKind.WEBGPU,
        matches=matches,
        space=space,
        lower=_template(template or f"{name}.webgpu"),
    )


FAMILIES = (
    _wasm(
        FamilyName.GEMV,
        lambda workload: _is_contraction(workload) and suits(Extents.of(workload)),
        streams_and_tiles,
    ),
    _wasm(FamilyName.MATMUL, _is_contraction, tiles_configs),
    _wasm(
        FamilyName.CONV,
        lambda workload: (
            workload.operator.family is Family.CONVOLUTION and not is_pointwise(workload)
        ),
        window_configs,
    ),
    _wasm(
        FamilyName.REDUCTION,
        lambda workload: workload.operator.family is Family.ROWS,
        rows_configs,
    ),
    _wasm(
        FamilyName.ELEMENTWISE,
        lambda workload: workload.operator.family is Family.MAP,
        map_configs,
    ),
    _webgpu(
        FamilyName.MATMUL,
        # Tiles read b as vectors.
        lambda workload: is_matrix_product(workload) and workload.tensors[1].dtype in KEY_DTYPES,
        matmul_configs,
    ),
    _webgpu(
        FamilyName.CONV,
        lambda workload: (
            workload.operator.family is Family.CONVOLUTION and not is_matrix_product(workload)
        ),
        conv_configs,
    ),
    _webgpu(
        FamilyName.REDUCTION,
        lambda workload: workload.operator.family is Family.ROWS,
        reduction_configs,
    ),
    _webgpu(
        FamilyName.TRANSPOSE,
        lambda workload: workload.operator.name == "transpose",
        transpose_configs,
    ),
    # A thread for each entry, as the operator is stated: any program.
    _webgpu(FamilyName.ELEMENTWISE, lambda _: True, elementwise_configs),
)
"""The first of a target that matches a workload lists its space."""

_BY_NAME = {(family.name.value, family.target): family for family in FAMILIES}
