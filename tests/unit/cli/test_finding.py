"""`tune` tells of a vote."""

from typing import Any

from cli.finding import finding, sentences
from kernelzoo.domain.measurement import Outcome
from kernelzoo.domain.target import TargetKind
from kernelzoo.domain.zoo import EntryState
from services.gateway.wire.results import Trial
from services.gateway.wire.zoo import EvidenceWire, ZooEntry

SERVED, OTHER = "a" * 32, "b" * 32
FLOPS = 1_000_000


def entry(**changes: Any) -> ZooEntry:
    evidence = EvidenceWire(ballots=5, weight=25, total_weight=75, relative_time=0.5, engines=[])
    values = {
        "workload": "matmul:f32:m384k768n768",
        "device_class": "0123456789abcdef:r1-0:wasm+simd128",
        "version": 2,
        "state": EntryState.CONFIRMED,
        "published_at": "",
        "candidate": SERVED,
        "target": TargetKind.WASM,
        "config": {},
        "requires": [],
        "artifact": "c" * 64,
        "evidence": evidence,
        "reason": "",
        "contenders": [],
        "final": True,
        "best_ns": 20_000.0,
        "gflops": 50.0,
    }
    return ZooEntry.model_validate({**values, **changes})


def trial(candidate: str, *relative_times: float) -> Trial:
    return Trial(
        candidate=candidate,
        config={},
        requires=[],
        outcome=Outcome.OK,
        times_ns=[40_000 * time for time in relative_times],
        relative_times=list(relative_times),
        compile_ns=1,
        measured_at="",
    )


def test_the_speed_up_over_the_default_is_told_with_its_spread() -> None:
    (said,) = sentences(finding(entry(), [trial(SERVED, 0.4, 0.5, 0.5, 0.5, 0.625)], FLOPS))
    assert said == (
        "final for 0123456789abcdef:r1-0:wasm+simd128: aaaaaaaaaaaa, 50.0 GFLOP/s, "
        "2.00× the default (2.00 to 2.00, 5 agents), 25/75 in 5 ballots"
    )
    spread = finding(entry(), [trial(SERVED, 0.4, 0.5, 0.625)], FLOPS).served.speedup
    assert spread is not None
    assert (spread.low, spread.median, spread.high, spread.agents) == (1.8, 2.0, 2.25, 3)


def test_what_was_decided_is_told_by_the_votes_that_decided_it() -> None:
    """First measurements once called a kernel slower than the default that five agents, who timed
    it in turn with the default, had found faster."""
    evidence = EvidenceWire(
        ballots=5, weight=4, total_weight=75, relative_time=0.8, engines=[], rank=1, spread=0.012
    )
    found = finding(entry(evidence=evidence), [trial(SERVED, 1.03, 1.04, 1.05)], FLOPS)
    assert (found.rank, found.spread) == (1, 0.012)
    (said,) = sentences(found)
    assert said == (
        "final for 0123456789abcdef:r1-0:wasm+simd128: aaaaaaaaaaaa, 50.0 GFLOP/s, 1.25× the "
        "default (5 agents), rank 1 of what was measured, half of the voters within 1.2%, "
        "4/75 in 5 ballots"
    )


def test_a_faster_one_within_the_noise_is_named_with_the_reason() -> None:
    found = finding(entry(), [trial(SERVED, 0.5, 0.5), trial(OTHER, 0.498)], FLOPS)
    assert "less than the noise of 1%" in found.why
    assert "measured faster at first: bbbbbbbbbbbb" in sentences(found)[1]


def test_one_that_contends_says_that_more_are_asked() -> None:
    contended = entry(final=False, contenders=[OTHER])
    found = finding(contended, [trial(SERVED, 0.5), trial(OTHER, 0.4)], FLOPS)
    assert sentences(found)[0].startswith("confirmed for")
    assert "1 measured it so far; agents are asked for more" in found.why


def test_one_that_the_others_refuted_says_so() -> None:
    found = finding(entry(), [trial(SERVED, 0.5, 0.5), trial(OTHER, 0.2)], FLOPS)
    assert "do not bear it out" in found.why


def test_without_the_operators_key_the_ballots_say_the_speed_up() -> None:
    found = finding(entry(), (), FLOPS)
    assert found.fastest is None
    (said,) = sentences(found)
    assert said == (
        "final for 0123456789abcdef:r1-0:wasm+simd128: aaaaaaaaaaaa, 50.0 GFLOP/s, "
        "2.00× the default (5 agents), 25/75 in 5 ballots"
    )
