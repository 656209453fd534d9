"""The schedule families: which programs each schedules, with which settings, and how.

`lite_space` lists candidates by the first family of the table that matches a workload. `scheduled`
goes by what a candidate's config says, its setting `family`.

Listing a space must not import TVM, which takes a second. So this module imports no template: a
family's `lower` is the function of that name in `schedules/NAME/TARGET.py`, which the first call
imports.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib import import_module

from kernelzoo.domain.candidate import Candidate
from kernelzoo.domain.gpu import ANY_GPU, GpuModel
from kernelzoo.domain.operators.attention import attention_of
from kernelzoo.domain.operators.decoding import LANES, argmax_count, attention_shape
from kernelzoo.domain.operators.prefill import block_attention_shape
from kernelzoo.domain.operators.recurrence import is_recurrent
from kernelzoo.domain.target import TargetKind, refuse_unsupported
from kernelzoo.domain.workload import KEY_DTYPES, PROGRAM, Workload
from kernelzoo.errors import InvalidSchedule
from services.tuner.schedules.argmax.webgpu_space import argmax_configs
from services.tuner.schedules.attention.space import wasm_attention_configs
from services.tuner.schedules.attention.webgpu_space import webgpu_attention_configs
from services.tuner.schedules.base.iteration import (
    IterationSpace,
    contraction,
    is_transposition,
    iteration_space,
)
from services.tuner.schedules.base.quantised import quantised_product
from services.tuner.schedules.base.scheduled import ScheduledProgram
from services.tuner.schedules.base.settings import BASE
from services.tuner.schedules.base.wasm_config import WasmConfig
from services.tuner.schedules.base.webgpu_config import WebgpuConfig
from services.tuner.schedules.block_attention.webgpu_space import block_attention_configs
from services.tuner.schedules.conv.channelwise import channelwise
from services.tuner.schedules.conv.implicit_gemm import gathered
from services.tuner.schedules.conv.space import wasm_conv_configs
from services.tuner.schedules.conv.webgpu_space import conv_configs
from services.tuner.schedules.conv.windows import windows
from services.tuner.schedules.decode_attention.config import cache_attention
from services.tuner.schedules.decode_attention.space import wasm_decode_attention_configs
from services.tuner.schedules.decode_attention.webgpu_space import decode_attention_configs
from services.tuner.schedules.depthwise.space import wasm_depthwise_configs
from services.tuner.schedules.direct_conv.space import wasm_direct_conv_configs
from services.tuner.schedules.elementwise.space import wasm_elementwise_configs
from services.tuner.schedules.elementwise.webgpu_space import elementwise_configs
from services.tuner.schedules.gemv.config import MAX_M
from services.tuner.schedules.gemv.space import wasm_gemv_configs
from services.tuner.schedules.matmul.space import wasm_matmul_configs
from services.tuner.schedules.matmul.webgpu_space import matmul_configs
from services.tuner.schedules.ordered.space import wasm_ordered_configs
from services.tuner.schedules.ordered.webgpu_space import ordered_configs
from services.tuner.schedules.prefetching_matmul.space import wasm_prefetching_matmul_configs
from services.tuner.schedules.quantised_gemv.config import streams
from services.tuner.schedules.quantised_gemv.space import wasm_quantised_gemv_configs
from services.tuner.schedules.quantised_gemv.webgpu_config import MAX_M as MAX_QUANTISED_M
from services.tuner.schedules.quantised_gemv.webgpu_space import quantised_gemv_configs
from services.tuner.schedules.quantised_matmul.config import unpacks
from services.tuner.schedules.quantised_matmul.space import wasm_quantised_matmul_configs
from services.tuner.schedules.quantised_matmul.webgpu_space import quantised_matmul_configs
from services.tuner.schedules.recurrence.space import wasm_recurrence_configs
from services.tuner.schedules.recurrence.webgpu_space import recurrence_configs
from services.tuner.schedules.reduction.rows import rows
from services.tuner.schedules.reduction.space import wasm_reduction_configs
from services.tuner.schedules.reduction.webgpu_space import reduction_configs
from services.tuner.schedules.strassen_matmul.space import wasm_strassen_matmul_configs
from services.tuner.schedules.transpose.webgpu_space import transpose_configs
from services.tuner.schedules.webgpu_space import webgpu_space
from services.tuner.schedules.winograd.space import wasm_winograd_configs

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
    others; `recurrences`: those that are made step by step, and no others. `lower` makes loop nests
    of a candidate; it raises InvalidSchedule and UnsupportedProgram as `compile_candidate` does.
    """

    name: str
    target: TargetKind
    matches: Matches
    space: Callable[[Workload, GpuModel], tuple[Candidate, ...]]
    lower: Lower
    programs: bool = False
    states: bool = False
    ordered: bool = False
    recurrences: bool = False


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
    return matching(workload, target)[0].space(workload, gpu)


@lru_cache(maxsize=1024)
def matching(workload: Workload, target: TargetKind) -> tuple[ScheduleFamily, ...]:
    """The families that have schedules for a workload, in the order of the table."""
    unnamed = workload.operator is PROGRAM
    if unnamed and workload.program.is_ordered:
        return tuple(each for each in FAMILIES if each.target is target and each.ordered)
    space = iteration_space(workload)
    recurrent = _is_made_in_steps(space)
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
    return family.lower(candidate)


def _template(name: str, target: TargetKind) -> Lower:
    """`lower` of `schedules/NAME/TARGET.py`, which is imported when it is called."""

    def lower(candidate: Candidate) -> ScheduledProgram:
        found: Lower = import_module(f"services.tuner.schedules.{name}.{target}").lower
        return found(candidate)

    return lower


def _streams_b(space: IterationSpace) -> bool:
    """A contraction of few rows, no batch and b as it is, which one pass over b computes."""
    found = contraction(space)
    return (
        found is not None
        and not found.batch
        and not found.b_transposed
        and (found.nest.size(found.m) <= MAX_M)
    )


def _reduces_rows(space: IterationSpace) -> bool:
    return rows(space.program) is not None


def _has_windows(space: IterationSpace) -> bool:
    return windows(space.program) is not None


def _has_windows_of_three(space: IterationSpace) -> bool:
    """3 x 3 pixels of all channels."""
    found = windows(space.program) if space.named else None
    return found is not None and found.packs and [*map(found.size, found.window)] == [3, 3]


def _sums_channels(space: IterationSpace) -> bool:
    """Windows over all channels."""
    found = windows(space.program) if space.named else None
    return found is not None and found.packs


def _keeps_channels_apart(space: IterationSpace) -> bool:
    """Windows of each channel by itself."""
    found = windows(space.program) if space.named else None
    return found is not None and not found.k and found.multiplies


def _reads_vectors(space: IterationSpace) -> bool:
    """A product of matrices, stated as one or as a convolution, whose b is read as vectors."""
    found = contraction(space)
    if found is None:
        windows = gathered(space)
        found = windows.product if windows else None
    if found is None or found.b.dtype not in KEY_DTYPES:
        return False
    return found.epilogue is None or not found.epilogue.chooses


def _streams_quantised(space: IterationSpace) -> bool:
    """A product of few rows with quantised weights."""
    found = quantised_product(space.program)
    return found is not None and found.m <= MAX_QUANTISED_M


def _streams_quantised_words(space: IterationSpace) -> bool:
    """The same, with weights that are taken a whole vector of words at a time."""
    found = quantised_product(space.program)
    return found is not None and streams(found)


def _multiplies_quantised(space: IterationSpace) -> bool:
    """Products with quantised weights of many rows, as they are."""
    found = quantised_product(space.program)
    return found is not None and found.norm is None and found.m > MAX_QUANTISED_M


def _unpacks_weights(space: IterationSpace) -> bool:
    """The same, with weights that are unpacked four rows at a time."""
    found = quantised_product(space.program)
    return found is not None and unpacks(found)


def _attends_rows(space: IterationSpace) -> bool:
    found = attention_of(space.program)
    return found is not None and found.in_vectors


def _attends_rows_in_quads(space: IterationSpace) -> bool:
    found = attention_of(space.program)
    return found is not None and found.in_quads


def _attends(space: IterationSpace) -> bool:
    return attention_shape(space.program) is not None


def _attends_blocks(space: IterationSpace) -> bool:
    found = block_attention_shape(space.program)
    return found is not None and found[0].head_dim % (2 * LANES) == 0


def _attends_cache(space: IterationSpace) -> bool:
    """Attention of one token or of a block of them."""
    return cache_attention(space.program) is not None


def _is_argmax(space: IterationSpace) -> bool:
    return argmax_count(space.program) is not None


def _takes_values_in_order(space: IterationSpace) -> bool:
    return space.program.is_ordered


def _is_made_in_steps(space: IterationSpace) -> bool:
    return is_recurrent(space.program)


def _wasm(
    name: str,
    matches: Matches,
    configs: Callable[[Workload], Sequence[WasmConfig]],
    *,
    programs: bool = False,
    states: bool = False,
    ordered: bool = False,
    recurrences: bool = False,
) -> ScheduleFamily:
    def space(workload: Workload, _: GpuModel) -> tuple[Candidate, ...]:
        return tuple(config.candidate(workload) for config in configs(workload))

    return ScheduleFamily(
        name=name,
        target=TargetKind.WASM,
        matches=matches,
        space=space,
        lower=_template(name, TargetKind.WASM),
        programs=programs,
        states=states,
        ordered=ordered,
        recurrences=recurrences,
    )


def _javascript(family: ScheduleFamily) -> ScheduleFamily:
    """A family of wasm with its loops over lanes written out.

    Its space is one candidate: nobody measures JavaScript (ADR 69). It is the default of weights
    that may change, as nothing packs them before.
    """

    def space(workload: Workload, gpu: GpuModel) -> tuple[Candidate, ...]:
        found = family.space(replace(workload, constant=()), gpu)
        usual = next(each for each in found if each.requires == BASE)
        made = replace(usual, workload=workload, target=TargetKind.JAVASCRIPT, requires=())
        return (made,)

    def lower(candidate: Candidate) -> ScheduledProgram:
        return family.lower(replace(candidate, target=TargetKind.WASM, requires=BASE))

    return replace(family, target=TargetKind.JAVASCRIPT, space=space, lower=lower)


def _webgpu(
    name: str,
    matches: Matches,
    configs: Callable[[Workload, GpuModel], Sequence[WebgpuConfig]],
    *,
    programs: bool = False,
    states: bool = False,
    ordered: bool = False,
    recurrences: bool = False,
) -> ScheduleFamily:
    def space(workload: Workload, gpu: GpuModel) -> tuple[Candidate, ...]:
        return webgpu_space(configs(workload, gpu), workload, gpu)

    return ScheduleFamily(
        name=name,
        target=TargetKind.WEBGPU,
        matches=matches,
        space=space,
        lower=_template(name, TargetKind.WEBGPU),
        programs=programs,
        states=states,
        ordered=ordered,
        recurrences=recurrences,
    )


DECODING_WASM_FAMILIES = (
    # Language models do not run in JavaScript, so that nobody would run these there.
    _wasm("quantised_gemv", _streams_quantised_words, wasm_quantised_gemv_configs, programs=True),
    _wasm("quantised_matmul", _unpacks_weights, wasm_quantised_matmul_configs, programs=True),
    _wasm(
        "decode_attention",
        _attends_cache,
        wasm_decode_attention_configs,
        programs=True,
        states=True,
    ),
)
WASM_FAMILIES = (
    _wasm("gemv", _streams_b, wasm_gemv_configs, programs=True),
    _wasm("matmul", contraction, wasm_matmul_configs, programs=True),
    _wasm("prefetching_matmul", contraction, wasm_prefetching_matmul_configs),
    _wasm("strassen_matmul", contraction, wasm_strassen_matmul_configs),
    _wasm("conv", _has_windows, wasm_conv_configs, programs=True),
    _wasm("winograd", _has_windows_of_three, wasm_winograd_configs),
    _wasm("direct_conv", _sums_channels, wasm_direct_conv_configs),
    _wasm("depthwise", _keeps_channels_apart, wasm_depthwise_configs),
    _wasm("reduction", _reduces_rows, wasm_reduction_configs, programs=True),
    _wasm("attention", _attends_rows, wasm_attention_configs, programs=True),
    _wasm("ordered", _takes_values_in_order, wasm_ordered_configs, programs=True, ordered=True),
    _wasm(
        "recurrence", _is_made_in_steps, wasm_recurrence_configs, programs=True, recurrences=True
    ),
    # Loops as the program is stated: any program but those.
    _wasm("elementwise", lambda _: True, wasm_elementwise_configs, programs=True, states=True),
)

FAMILIES = (
    *DECODING_WASM_FAMILIES,
    *WASM_FAMILIES,
    _webgpu("quantised_gemv", _streams_quantised, quantised_gemv_configs, programs=True),
    _webgpu("quantised_matmul", _multiplies_quantised, quantised_matmul_configs, programs=True),
    _webgpu("decode_attention", _attends, decode_attention_configs, programs=True, states=True),
    _webgpu(
        "block_attention", _attends_blocks, block_attention_configs, programs=True, states=True
    ),
    _webgpu(
        "tiled_block_attention",
        _attends_blocks,
        block_attention_configs,
        programs=True,
        states=True,
    ),
    _webgpu("attention", _attends_rows_in_quads, webgpu_attention_configs, programs=True),
    _webgpu("split_attention", _attends_rows_in_quads, webgpu_attention_configs, programs=True),
    _webgpu("argmax", _is_argmax, argmax_configs, programs=True),
    _webgpu("matmul", _reads_vectors, matmul_configs, programs=True),
    _webgpu("conv", channelwise, conv_configs, programs=True),
    _webgpu("reduction", _reduces_rows, reduction_configs, programs=True),
    _webgpu("transpose", is_transposition, transpose_configs),
    _webgpu("ordered", _takes_values_in_order, ordered_configs, programs=True, ordered=True),
    _webgpu("recurrence", _is_made_in_steps, recurrence_configs, programs=True, recurrences=True),
    # A thread for each entry, as the program is stated: any program but those.
    _webgpu("elementwise", lambda _: True, elementwise_configs, programs=True, states=True),
    *map(_javascript, WASM_FAMILIES),
)
"""The first of a target that matches a program lists its space."""

_BY_NAME = {(family.name, family.target): family for family in FAMILIES}
