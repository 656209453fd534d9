"""Measured times say by which precision a page runs a model, as far as they are known."""

import pytest

from kernelzoo.domain.precision import Precision
from kernelzoo.store.kernel_times import VoiceTimeRow
from services.gateway.precision import Expected, believed, choose


def offer(
    precision: Precision, ns: float | None, measured: float = 1.0, missing: int = 0
) -> Expected:
    return Expected(precision=precision, elapsed_ns=ns, measured=measured, missing=missing)


def both(f32: float | None, int8: float | None, **of_int8: float) -> list[Expected]:
    measured, missing = of_int8.get("measured", 1.0), int(of_int8.get("missing", 0))
    return [offer(Precision.F32, f32), offer(Precision.INT8, int8, measured, missing)]


def test_the_faster_of_two_is_chosen() -> None:
    faster = choose(both(48e6, 21e6))
    assert faster.precision is Precision.INT8
    assert faster.reason == "An inference is expected to take 21 ms with int8 and 48 ms with f32."
    assert choose(both(21e6, 48e6)).precision is Precision.F32


def test_a_precision_of_which_calls_are_not_timed_is_to_be_faster_by_a_margin() -> None:
    """Quantising takes 3 % of the operations of two small convolutions, and half of their time."""
    close = choose(both(4e6, 3.5e6, measured=0.97))
    assert close.precision is Precision.F32
    assert close.reason.endswith("Not all calls are timed; it is f32 within 1.5 times as long.")
    assert choose(both(4e6, 3.5e6)).precision is Precision.INT8
    assert choose(both(4e6, 2.5e6, measured=0.97)).precision is Precision.INT8


@pytest.mark.parametrize("offers", [both(None, 1e6), both(1e6, 9e6, measured=0.89)])
def test_where_too_little_is_measured_it_computes_what_the_file_says(
    offers: list[Expected],
) -> None:
    found = choose(offers)
    assert found.precision is Precision.F32
    assert found.reason == "Too little is measured here; it is f32 until more is."


def test_a_precision_whose_kernels_are_not_compiled_yet_waits() -> None:
    found = choose(both(48e6, 21e6, missing=1))
    assert (found.precision, found.reason) == (
        Precision.F32,
        "Kernels of int8 are not compiled yet.",
    )


def test_a_model_of_one_precision_has_that() -> None:
    only = offer(Precision.F32, None)
    assert choose([only]).reason == "The model has no other here."
    assert choose([only], asked=True).reason == "It was asked for."


def test_times_are_believed_of_a_quorum_and_of_the_operators_agents_alone_where_they_are_one() -> (
    None
):
    def told(*times: float, operated: bool) -> list[VoiceTimeRow]:
        return [VoiceTimeRow(candidate_id="k", operated=operated, best_ns=each) for each in times]

    strangers, own = told(1, 1, 1, operated=False), told(8, 9, operated=True)
    assert believed(strangers[:1], 2) == {}
    assert believed([*strangers, *own], 2) == {"k": 8.5}
    assert believed([*strangers, *own], 3) == {"k": 1}


@pytest.mark.parametrize(
    ("key", "precision"),
    [
        ("matmul_u8i8+relu:f32:m16k64n64:constant=b", Precision.INT8),
        ("matmul_u8i7z:f32:m16k64n64", Precision.INT8),
        ("depthwise_conv2d_u8i8q:f32:b1h6w8c16kh3kw3stride1pad1", Precision.INT8),
        ("matmul+relu:f32:m16k64n64:constant=b", Precision.F32),
        ("quantise:f32:n1024", Precision.F32),
        ("program:matmul_u8i8:0123456789abcdef", Precision.F32),
    ],
)
def test_a_plan_that_multiplies_bytes_is_of_int8(key: str, precision: Precision) -> None:
    assert Precision.of_kernels(["relu:f32:n4", key]) is precision
