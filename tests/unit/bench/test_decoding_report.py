"""Answers of the page of decoders become rows and claims."""

from msgspec.structs import replace

from bench.gpu.answer import Adapter
from bench.models.decode_webgpu import (
    Decoded,
    DecoderAnswer,
    DecodingAnswer,
    KernelShare,
    Profile,
    Varied,
    decoding_report,
)

ADAPTER = Adapter(
    vendor="nvidia",
    architecture="hopper",
    subgroup_min_size=32,
    subgroup_max_size=32,
    features=(),
    limits={},
)


def _decoded(engine: str, context: int, interval: int, token_ms: float) -> Decoded:
    return Decoded(
        engine=engine,
        context=context,
        interval=interval,
        prefill_ms=(20.0, 10.0, 11.0),
        token_ms=(9.0, token_ms, token_ms),
    )


def _answer(same_tokens: int, failures: dict[str, str]) -> DecodingAnswer:
    engines = (("kernelzoo", 16, 0.75), ("kernelzoo", 1, 1.2), ("onnxruntime-web", 1, 9.0))
    timed = () if failures else engines
    decoder = DecoderAnswer(
        name="smollm-135m",
        calls=155,
        tokens=64,
        same_tokens=same_tokens,
        differences={"kernelzoo": 2e-6},
        decoded=tuple(_decoded(name, 128, each, ms) for name, each, ms in timed),
        varied=(
            Varied(
                name="neither",
                reuse="nothing",
                flights=0,
                interval=1,
                submission="token",
                token_ms=(3.5, 3.0, 4.0),
            ),
        ),
        profiles=()
        if failures
        else (
            Profile(
                context=128,
                token_ms=0.7,
                kernels=(KernelShare(workload="matmul_q4:f32:m1k576n960", calls=30, us=3.5),),
            ),
        ),
        times={},
        failures=failures,
    )
    return DecodingAnswer(
        date="2026-11-23T00:00:00Z",
        browser="Chromium",
        adapter=ADAPTER,
        peers={},
        decoders=(decoder,),
    )


def test_claims_hold_decoding_to_absolute_times_and_to_the_peer() -> None:
    report = decoding_report(_answer(63, {}), {"gpu": "NVIDIA H100"})
    held = {claim.what.partition(": ")[2]: (claim.value, claim.ok) for claim in report.claims}
    assert held == {
        "logits of kernelzoo to NumPy's": (2e-6, True),
        "equal tokens": (63, False),
        "a token": (0.75, True),
        "faster than onnxruntime-web": (12.0, True),
        "its prompt": (11.0, True),
        "a token, one a fetch": (1.2, False),
    }
    told = {row["what"]: row["token_ms"] for row in report.rows[3:]}
    assert told == {
        "neither": 3.5,
        "on the GPU alone": 0.7,
        "matmul_q4:f32:m1k576n960": 0.105,
    }


def test_a_cache_of_f16_is_held_to_wider_bounds_than_the_peer_whose_cache_is_f32() -> None:
    (found,) = _answer(64, {}).decoders
    differences = {"kernelzoo": 1e-3, "onnxruntime-web": 1e-3}
    answer = replace(
        _answer(64, {}), decoders=(replace(found, cache="f16", differences=differences),)
    )
    report = decoding_report(answer, {})
    assert [row["cache"] for row in report.rows[:4]] == ["f16", "f16", "f32", "f16"]
    told = "smollm-135m with a cache of f16: logits of {} to NumPy's"
    held = {claim.what: claim.ok for claim in report.claims if "logits" in claim.what}
    assert held == {told.format("kernelzoo"): True, told.format("onnxruntime-web"): False}


def test_an_engine_that_fails_is_a_row_and_ours_a_missed_claim() -> None:
    report = decoding_report(_answer(0, {"kernelzoo": "memory: too little"}), {})
    assert [claim.ok for claim in report.claims] == [False]
    assert report.rows[-1]["note"] == "memory: too little"
