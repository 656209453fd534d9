"""The tuning of a model comes to an end, and tells of itself until then."""

from cli.models.tuning import TunedPlan, is_done, measured_first, why_unfinished
from kernelzoo.domain.precision import Precision
from services.gateway.wire.models import PlanCoverage

CLASS = "0123456789abcdef:r1-0:wasm+simd128"


def plan(device_class: str = CLASS, **changes: float | None) -> TunedPlan:
    told = {"first_ms": 20.0, "expected_ms": 12.5, "measured": 1.0, "confirmed_flops": 0.9}
    return TunedPlan(
        device_class=device_class,
        dimensions={"sequence": 128},
        precision=Precision.F32,
        workloads=4,
        **{"confirmed": 3, **told, **changes},
    )


def test_it_is_done_when_one_class_has_a_kernel_for_everything() -> None:
    whole = plan(confirmed=4)
    assert not is_done(())
    assert not is_done((plan(),))
    assert is_done((plan("fedcba9876543210:r1-0:wasm+simd128"), whole))
    assert not is_done((whole, plan()))


def test_classes_that_nobody_measures_are_not_told_and_the_furthest_is_first() -> None:
    """A page with a bundle is such a class; the first one is drawn."""

    def covered(measured: float, confirmed_flops: float) -> PlanCoverage:
        return PlanCoverage(
            device_class=CLASS,
            dimensions={},
            precision=Precision.F32,
            workloads=2,
            confirmed=0,
            provisional=0,
            measured=measured,
            confirmed_flops=confirmed_flops,
            expected_ms=None,
            prepare_ms=None,
            page_loads=1,
        )

    page, behind, ahead = covered(0.0, 0.0), covered(1.0, 0.2), covered(0.9, 0.5)
    assert measured_first((page, behind, ahead)) == [ahead, behind]


def test_the_expected_time_is_told_beside_the_first() -> None:
    assert plan().line == (
        f"{CLASS}, sequence=128: expected 12.5 ms, 20.0 ms at first (1.60×); "
        "confirmed 3/4 kernels, 90% of its operations"
    )
    assert "expected 12.5 ms from 40% of its operations;" in plan(measured=0.4, first_ms=None).line


def test_who_waits_is_told_what_helps() -> None:
    nothing = why_unfinished("bert", (), "http://zoo.test")
    assert "open http://zoo.test/agent in a browser or run `kernelzoo fleet" in nothing
    assert nothing == why_unfinished("bert", (plan(measured=0.0),), "http://zoo.test")
    assert "`kernelzoo models show bert`" in why_unfinished("bert", (plan(),), "http://zoo.test")
