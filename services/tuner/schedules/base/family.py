"""Schedule families: which programs each schedules, with which settings, and how.

A family is a value that `schedules/NAME/family.py` exports in `FAMILIES`, for each of its targets.
Listing a space must not import TVM, which takes a second. So no such file imports a template: a
family's `lower` is a function of `schedules/NAME/TARGET.py`, which the first call imports.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from typing import TypedDict, Unpack

from kernelzoo.domain.candidate import Candidate
from kernelzoo.domain.gpu import GpuModel
from kernelzoo.domain.target import TargetKind
from kernelzoo.domain.workload import Workload
from services.tuner.schedules.base.iteration import IterationSpace
from services.tuner.schedules.base.scheduled import ScheduledProgram
from services.tuner.schedules.base.settings import BASE
from services.tuner.schedules.base.wasm_config import WasmConfig
from services.tuner.schedules.base.webgpu_config import WebgpuConfig
from services.tuner.schedules.base.webgpu_space import webgpu_space

Matches = Callable[[IterationSpace], object]
Lower = Callable[[Candidate], ScheduledProgram]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleFamily:
    """One way to schedule programs of one kind for one target.

    `matches` tells whether it has schedules for programs that iterate so; `space` lists candidates
    for a model of GPU (at which those for wasm do not look), the likely best first. Some of them
    may be of another family that matches as well. `programs`: it also takes programs that no
    operator names, and so asks a workload for neither extents nor an operator; `states`: also those
    that write some of their inputs; `ordered`: those that take values one after another, and no
    others; `recurrences`: those that are made step by step, and no others; `spares`: its template
    leaves out by itself what is spare of an output; loops of others are ended. `lower` makes loop
    nests of a candidate; it raises InvalidSchedule and UnsupportedProgram as `compile_candidate`
    does. It is that of the module `template` of `schedules`.
    """

    name: str
    target: TargetKind
    matches: Matches
    space: Callable[[Workload, GpuModel], tuple[Candidate, ...]]
    lower: Lower
    template: str
    programs: bool = False
    states: bool = False
    ordered: bool = False
    recurrences: bool = False
    spares: bool = False


class Takes(TypedDict, total=False):
    """Programs that a family takes besides named ones, as in `ScheduleFamily`."""

    programs: bool
    states: bool
    ordered: bool
    recurrences: bool
    spares: bool


def wasm_family(
    name: str,
    matches: Matches,
    configs: Callable[[Workload], Sequence[WasmConfig]],
    **takes: Unpack[Takes],
) -> ScheduleFamily:
    """A family for wasm; its template is `schedules/NAME/wasm.py`."""

    def space(workload: Workload, _: GpuModel) -> tuple[Candidate, ...]:
        return tuple(config.candidate(workload) for config in configs(workload))

    return ScheduleFamily(
        name=name,
        target=TargetKind.WASM,
        matches=matches,
        space=space,
        lower=_lower_of(f"{name}.wasm"),
        template=f"{name}.wasm",
        **takes,
    )


def webgpu_family(
    name: str,
    matches: Matches,
    configs: Callable[[Workload, GpuModel], Sequence[WebgpuConfig]],
    *,
    template: str = "",
    **takes: Unpack[Takes],
) -> ScheduleFamily:
    """A family for webgpu; its template is `schedules/NAME/webgpu.py` unless another is named, as
    "FOLDER.MODULE"."""

    def space(workload: Workload, gpu: GpuModel) -> tuple[Candidate, ...]:
        return webgpu_space(configs(workload, gpu), workload, gpu)

    return ScheduleFamily(
        name=name,
        target=TargetKind.WEBGPU,
        matches=matches,
        space=space,
        lower=_lower_of(template or f"{name}.webgpu"),
        template=template or f"{name}.webgpu",
        **takes,
    )


def with_javascript(family: ScheduleFamily) -> tuple[ScheduleFamily, ScheduleFamily]:
    """A family of wasm, and the same with its loops over lanes written out.

    The space of that is one candidate: nobody measures JavaScript (ADR 69). It is the default of
    weights that may change, as nothing packs them before.
    """

    def space(workload: Workload, gpu: GpuModel) -> tuple[Candidate, ...]:
        candidates = family.space(replace(workload, constant=()), gpu)
        usual = next(each for each in candidates if each.requires == BASE)
        return (replace(usual, workload=workload, target=TargetKind.JAVASCRIPT, requires=()),)

    def lower(candidate: Candidate) -> ScheduledProgram:
        return family.lower(replace(candidate, target=TargetKind.WASM, requires=BASE))

    return family, replace(family, target=TargetKind.JAVASCRIPT, space=space, lower=lower)


def _lower_of(template: str) -> Lower:
    """`lower` of a module in `schedules`, which is imported when it is called."""

    def lower(candidate: Candidate) -> ScheduledProgram:
        schedule: Lower = import_module(f"services.tuner.schedules.{template}").lower
        return schedule(candidate)

    return lower
