"""Times that no device of a class can reach, and those that an odd one can."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelzoo.domain.target import TargetKind
from kernelzoo.domain.workload import Workload
from services.aggregator.envelope import (
    CEILING_GFLOPS,
    LEVEL_STEP,
    PEERS,
    REFERENCE_FASTER,
    REFERENCE_SLOWER,
    SLACK,
    SPREAD,
    ClaimedDevice,
    DeviceRates,
    fastest_ns,
    impossible,
)

K0 = Workload.of("matmul", (384, 768, 768))
K0_LIMIT_NS = K0.flops / 68.0
"""At the register-only limit of the core of bench/results/kernels_wasm.json."""


def device(
    claimed: float,
    *peers: float,
    target: TargetKind = TargetKind.WASM,
    operated: tuple[float, ...] = (),
    reference_ns: tuple[float, ...] = (),
    written_gbps: float = 0,
) -> ClaimedDevice:
    def rates(gflops: float) -> DeviceRates:
        return DeviceRates(peak_gflops=gflops, written_gbps=written_gbps)

    return ClaimedDevice(
        target=target,
        claimed=rates(claimed),
        peers=[rates(peer) for peer in peers],
        operated=[rates(peer) for peer in operated],
        reference_ns=reference_ns,
    )


def test_the_best_kernel_that_was_ever_measured_is_possible() -> None:
    """99.8 % of the limit, where the probe read 4 % less than the limit."""
    best_ns = K0_LIMIT_NS / 0.998
    assert impossible(K0, device(68.0 / 1.04), best_ns, best_ns) == ""


def test_a_time_below_the_limit_is_impossible_and_says_so() -> None:
    found = impossible(K0, device(68.0), K0_LIMIT_NS / (SLACK * 1.01), K0_LIMIT_NS)
    assert "this device takes" in found


def test_an_impossible_reference_is_found_as_well() -> None:
    assert impossible(K0, device(68.0), K0_LIMIT_NS, K0_LIMIT_NS / 2)


OPERATED = (68.0, 67.0, 69.0)


def test_where_the_operator_knows_a_class_a_great_claim_gains_no_more_than_its_spread() -> None:
    target = TargetKind.WEBGPU
    honest = fastest_ns(K0, device(68.0, target=target, operated=OPERATED))
    boaster = fastest_ns(K0, device(1e6, 1e6, 1e6, 1e6, target=target, operated=OPERATED))
    assert boaster == pytest.approx(honest / SPREAD)


def test_where_strangers_alone_know_a_class_a_great_claim_gains_what_any_device_has() -> None:
    ceiling = fastest_ns(K0, device(CEILING_GFLOPS[TargetKind.WASM]))
    assert fastest_ns(K0, device(1e6, 68.0, 67.0, 69.0)) == ceiling


@given(
    st.floats(min_value=0, max_value=1e4),
    st.lists(st.floats(min_value=0, max_value=1e6), max_size=20),
)
def test_no_claims_of_strangers_tighten_what_holds_without_them(
    claimed: float, peers: list[float]
) -> None:
    """However many networks claim however little: three that claimed 0.5 quarantined a class."""
    assert fastest_ns(K0, device(claimed, *peers)) <= fastest_ns(K0, device(claimed))
    known = fastest_ns(K0, device(claimed, operated=OPERATED))
    assert fastest_ns(K0, device(claimed, *peers, operated=OPERATED)) <= known * (1 + 1e-9)


def test_a_probe_on_a_little_core_does_not_make_honest_times_impossible() -> None:
    assert fastest_ns(K0, device(17.0, 68.0, 67.0, 69.0)) == fastest_ns(
        K0, device(68.0, 68.0, 67.0, 69.0)
    )


def test_in_an_unknown_class_no_claim_beats_any_device_there_is() -> None:
    ceiling = CEILING_GFLOPS[TargetKind.WASM]
    assert fastest_ns(K0, device(1e9)) == pytest.approx(K0.flops / ceiling / SLACK)


def test_who_does_not_know_its_peak_is_bounded_by_its_class_or_by_any_device() -> None:
    assert fastest_ns(K0, device(0)) == fastest_ns(K0, device(CEILING_GFLOPS[TargetKind.WASM]))
    assert fastest_ns(K0, device(0, operated=OPERATED)) == fastest_ns(
        K0, device(68.0 * SPREAD, operated=OPERATED)
    )
    unknown = device(68.0, 0, 0, 0, 0, written_gbps=32)
    assert fastest_ns(K0, unknown) == fastest_ns(K0, device(68.0))


def test_dot_products_of_bytes_may_be_four_times_as_fast() -> None:
    i8 = Workload.of("matmul_i8", (384, 768, 768))
    assert fastest_ns(i8, device(68.0)) == pytest.approx(fastest_ns(K0, device(68.0)) / 4)


def test_an_output_is_written_no_faster_than_the_core_writes() -> None:
    relu = Workload.of("relu", (1 << 16,))
    limit = fastest_ns(relu, device(68.0, written_gbps=32))
    assert limit == pytest.approx((4 << 16) / (32 * LEVEL_STEP * SLACK))


def test_a_gpu_may_write_to_its_caches_faster_than_to_its_memory() -> None:
    relu = Workload.of("relu", (1 << 16,))
    gpu = device(1000.0, written_gbps=8, target=TargetKind.WEBGPU)
    assert fastest_ns(relu, gpu) == pytest.approx((1 << 16) / 1000 / SLACK)


@pytest.mark.parametrize(
    ("times", "possible"),
    [
        (1.0, True),
        (1 / (REFERENCE_FASTER * 0.99), True),
        (1 / (REFERENCE_FASTER * 1.01), False),
        (REFERENCE_SLOWER * 0.99, True),
        (REFERENCE_SLOWER * 1.01, False),
    ],
)
def test_a_reference_far_off_its_class_is_implausible(times: float, possible: bool) -> None:
    usual_ns = 100 * K0_LIMIT_NS
    known = device(68.0, reference_ns=(usual_ns,) * PEERS)
    told_ns = usual_ns * times
    assert (impossible(K0, known, told_ns, told_ns) == "") is possible
    unknown = device(68.0, reference_ns=(usual_ns,) * (PEERS - 1))
    assert impossible(K0, unknown, told_ns, told_ns) == ""


@given(
    st.floats(min_value=1e-300, max_value=1e4),
    st.lists(st.floats(min_value=0, max_value=1e4), max_size=7),
    st.floats(min_value=0, max_value=1e4),
)
def test_a_greater_claim_never_makes_a_time_impossible(
    claimed: float, peers: list[float], more: float
) -> None:
    assert fastest_ns(K0, device(claimed + more, *peers)) <= fastest_ns(K0, device(claimed, *peers))
