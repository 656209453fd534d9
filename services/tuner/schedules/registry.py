"""The schedule families of all folders, in the order in which they are asked.

`lite_space` lists candidates by the first family of a target that matches a workload. `scheduled`
goes by what a candidate's config says, its setting `family`.
"""

from dataclasses import replace
from functools import lru_cache

from kernelzoo.domain.candidate import Candidate
from kernelzoo.domain.gpu import ANY_GPU, GpuModel
from kernelzoo.domain.operators.recurrence import is_recurrent
from kernelzoo.domain.target import TargetKind, refuse_unsupported
from kernelzoo.domain.workload import PROGRAM, Workload
from kernelzoo.errors import InvalidSchedule
from services.tuner.schedules.argmax import family as argmax
from services.tuner.schedules.attention import family as attention
from services.tuner.schedules.base.family import ScheduleFamily
from services.tuner.schedules.base.iteration import iteration_space
from services.tuner.schedules.base.scheduled import ScheduledProgram
from services.tuner.schedules.base.spare import with_spare
from services.tuner.schedules.block_attention import family as block_attention
from services.tuner.schedules.byte_depthwise import family as byte_depthwise
from services.tuner.schedules.conv import family as conv
from services.tuner.schedules.decode_attention import family as decode_attention
from services.tuner.schedules.depthwise import family as depthwise
from services.tuner.schedules.direct_conv import family as direct_conv
from services.tuner.schedules.dot_matmul import family as dot_matmul
from services.tuner.schedules.elementwise import family as elementwise
from services.tuner.schedules.gemv import family as gemv
from services.tuner.schedules.integer_matmul import family as integer_matmul
from services.tuner.schedules.matmul import family as matmul
from services.tuner.schedules.ordered import family as ordered
from services.tuner.schedules.prefetching_matmul import family as prefetching_matmul
from services.tuner.schedules.quantisation import family as quantisation
from services.tuner.schedules.quantised_gemv import family as quantised_gemv
from services.tuner.schedules.quantised_matmul import family as quantised_matmul
from services.tuner.schedules.recurrence import family as recurrence
from services.tuner.schedules.reduction import family as reduction
from services.tuner.schedules.strassen_matmul import family as strassen_matmul
from services.tuner.schedules.transpose import family as transpose
from services.tuner.schedules.winograd import family as winograd

FAMILIES: tuple[ScheduleFamily, ...] = (
    *quantised_gemv.FAMILIES,
    *quantised_matmul.FAMILIES,
    *integer_matmul.FAMILIES,
    *dot_matmul.FAMILIES,
    *quantisation.FAMILIES,
    *decode_attention.FAMILIES,
    *block_attention.FAMILIES,
    *attention.FAMILIES,
    *argmax.FAMILIES,
    *gemv.FAMILIES,
    *matmul.FAMILIES,
    *prefetching_matmul.FAMILIES,
    *strassen_matmul.FAMILIES,
    *conv.FAMILIES,
    *winograd.FAMILIES,
    *direct_conv.FAMILIES,
    *depthwise.FAMILIES,
    *byte_depthwise.FAMILIES,
    *reduction.FAMILIES,
    *transpose.FAMILIES,
    *ordered.FAMILIES,
    *recurrence.FAMILIES,
    *elementwise.FAMILIES,  # Any program that no family above takes.
)
"""The first of a target that matches a program lists its space."""

_BY_NAME = {(family.name, family.target): family for family in FAMILIES}


def lite_space(
    workload: Workload, target: TargetKind, gpu: GpuModel = ANY_GPU
) -> tuple[Candidate, ...]:
    """The few dozen candidates of a workload that are worth measuring: valid, none twice, at least
    one, ordered by promise.

    The first that requires simd128 alone, or nothing of webgpu, is the default of devices that
    nothing is known about. A space of webgpu belongs to a model of GPU. Raises InvalidInput for a
    workload that the target has no kernels for.
    """
    refuse_unsupported(workload, target)
    if not workload.spare_parts:
        return matching(workload, target)[0].space(workload, gpu)
    return tuple(
        replace(each, workload=workload) for each in lite_space(workload.whole, target, gpu)
    )


@lru_cache(maxsize=1024)
def matching(workload: Workload, target: TargetKind) -> tuple[ScheduleFamily, ...]:
    """The families that have schedules for a workload, in the order of the table. What may be left
    out of its output is nothing that they ask for."""
    workload = workload.whole
    unnamed = workload.operator is PROGRAM
    if unnamed and workload.program.is_ordered:
        return tuple(each for each in FAMILIES if each.target is target and each.ordered)
    space = iteration_space(workload)
    recurrent = is_recurrent(space.program)
    return tuple(
        each
        for each in FAMILIES
        if each.target is target
        and not each.ordered
        and (each.programs or not unnamed)
        and (each.states or not workload.has_states)
        and each.recurrences is recurrent
        and each.matches(space)
    )


def scheduled(candidate: Candidate) -> ScheduledProgram:
    """The candidate's loop nests, by the family that its config names.

    Raises InvalidSchedule where there is no such family, or it has no schedules for the workload.
    """
    key, target = candidate.workload.key, candidate.target
    family = _BY_NAME.get((candidate.family, target))
    if family is None:
        known = ", ".join(name for name, each in _BY_NAME if each is target)
        raise InvalidSchedule(
            f"config setting family is {candidate.family[:40]!r} or missing; "
            f"use one of {known} for {target}"
        )
    if family not in matching(candidate.workload, target):
        raise InvalidSchedule(f"family {family.name} has no schedule for {key} on {target}")
    workload = candidate.workload
    if not workload.spare_parts or family.spares:
        return family.lower(candidate)
    made = family.lower(replace(candidate, workload=workload.whole))
    ends = target is not TargetKind.WEBGPU
    nests = tuple(with_spare(nest, workload, ends=ends) for nest in made.nests)
    return replace(made, nests=nests)
