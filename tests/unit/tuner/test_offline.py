"""The offline plan changes one variable at a time; findings follow from ratios alone."""

from dataclasses import fields, replace

import numpy as np
import pytest

from kernelzoo.domain.tolerance import comparison_tolerance
from kernelzoo.domain.workload import Workload
from services.tuner.compile import compilation
from services.tuner.microbench.offline import (
    FEW_ROWS,
    WORKLOAD,
    Faster,
    Point,
    PrimitiveTrial,
    faster,
    findings,
    plan,
)
from services.tuner.passes.pipeline import ALL_PASSES, PassSwitches
from services.tuner.schedules.base.extents import Extents
from services.tuner.schedules.matmul.config import WasmMatmulConfig
from tests.unit.tuner.execution import execute, expected, inputs_of

SMALL = {
    WORKLOAD: Workload.parse("matmul:f32:m64k48n128"),
    FEW_ROWS: Workload.parse("matmul:f32:m4k48n1024"),
}


def changed(trial: PrimitiveTrial) -> list[str]:
    """Names of the settings in which the two points differ, those of config and passes included."""
    names = []
    pairs = (
        (Point, trial.base, trial.advanced),
        (type(trial.base.config), trial.base.config, trial.advanced.config),
        (PassSwitches, trial.base.switches, trial.advanced.switches),
    )
    for kind, base, advanced in pairs:
        differing = (
            f.name for f in fields(kind) if getattr(base, f.name) != getattr(advanced, f.name)
        )
        names += [name for name in differing if name not in ("config", "switches")]
    return names


@pytest.mark.parametrize("trial", plan(), ids=lambda trial: trial.primitive)
def test_one_variable_changes(trial: PrimitiveTrial) -> None:
    assert len(changed(trial)) == 1


def test_every_primitive_is_tried_once_and_on_another_variable() -> None:
    variables = [(type(trial.base.config), *changed(trial)) for trial in plan()]
    assert len(set(variables)) == len(variables)
    assert len({trial.primitive for trial in plan()}) == len(variables)


@pytest.mark.parametrize("trial", plan(), ids=lambda trial: trial.primitive)
def test_both_points_compile_to_other_bytes_unless_only_the_caller_changes(
    trial: PrimitiveTrial,
) -> None:
    base, advanced = (
        compilation(point.candidate(SMALL[trial.workload]), point.switches).artifact.sha256
        for point in (trial.base, trial.advanced)
    )
    assert (base == advanced) == (changed(trial)[0] in ("slices", "threads"))


def test_the_tiles_of_the_plan_are_whole_in_its_workload() -> None:
    extents = Extents.of(Workload.parse(WORKLOAD))
    for trial in plan():
        for config in (trial.base.config, trial.advanced.config):
            if isinstance(config, WasmMatmulConfig):
                assert config.rounded(extents) == extents


@pytest.mark.parametrize("switches", [ALL_PASSES, replace(ALL_PASSES, vectorise=False)])
def test_a_kernel_computes_the_same_with_and_without_vectors(switches: PassSwitches) -> None:
    candidate = plan()[0].advanced.candidate(SMALL[WORKLOAD])
    inputs = inputs_of(candidate.workload)
    output = execute(compilation(candidate, switches).artifact, inputs)
    assert np.abs(output - expected(inputs)).max() <= comparison_tolerance(candidate.workload)


@pytest.mark.parametrize(
    ("ratio", "expected"),
    [(1.0, Faster.EQUAL), (1.09, Faster.EQUAL), (1.1, Faster.ADVANCED), (0.9, Faster.BASE)],
)
def test_settings_within_a_tenth_are_equal(ratio: float, expected: Faster) -> None:
    assert faster(ratio) is expected


def test_devices_that_agree_fix_a_primitive_and_others_leave_it_open() -> None:
    found = findings(
        {
            "laptop": {"pack": 2.3, "fma": 1.0, "unroll": 1.0, "reorder": 1.3, "only": 2.0},
            "phone": {"pack": 1.4, "fma": 1.9, "unroll": 1.05, "reorder": 0.7},
        }
    )
    assert {each.primitive: each.fixed for each in found} == {
        "pack": Faster.ADVANCED,
        "fma": Faster.ADVANCED,
        "unroll": Faster.EQUAL,
        "reorder": None,
    }
    assert found[0].ratios == {"laptop": 2.3, "phone": 1.4}
