"""Judged keys say what was served, over what, and go on from a file."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from bench.crowd.finals import BEFORE
from bench.crowd.judged_keys import CLOSE, MOST, JudgedKey, KeptKeys, TunedKey, claims
from bench.crowd.referee import Judgement
from bench.report import CannotMeasure
from kernelzoo.domain.ballot import Ballot, BallotLine, CastBallot


def lines(times: dict[str, float]) -> tuple[BallotLine, ...]:
    return tuple(BallotLine(candidate_id=name, relative_time=time) for name, time in times.items())


def cast(identity: str, measured: dict[str, float], paired: dict[str, float]) -> CastBallot:
    ballot = Ballot(identity=identity, lines=lines(paired), paired=True)
    return CastBallot(network="", ballot=ballot, measured=lines(measured))


def tuned(*ballots: CastBallot, served: str = "served", final: bool = True) -> TunedKey:
    return TunedKey(
        workload="matmul:f32:m2k3n4",
        candidates=36,
        measurements=60,
        samples=600,
        served=served,
        default="default",
        final=final,
        contenders=(),
        versions=2,
        cast=ballots,
    )


def judged(over_best: float, over_default: float, key: TunedKey | None = None) -> JudgedKey:
    """Makes a key that each of eight pages finds the same of."""
    times = {"served": 100.0, "best": 100.0 / over_best, "default": 100.0 / over_default}
    page = {name: (time,) * 5 for name, time in times.items()}
    return JudgedKey(key=key or tuned(), screened=page, pages=(page,) * 8, others_busy=0.5)


def screened(times: Mapping[str, float]) -> dict[str, tuple[float, ...]]:
    return {name: (time, 1.3 * time) for name, time in times.items()}


def test_what_is_close_by_first_measurements_paired_rounds_or_a_page_of_all_is_compared() -> None:
    """`lucky` looked slow at first, `hurried` in paired rounds, `missed` in all that agents did;
    `slow` is."""
    key = tuned(
        cast(
            "1",
            {"served": 0.5, "default": 1.0, "lucky": 0.9, "hurried": 0.51, "missed": 2, "slow": 2},
            {"served": 0.5, "lucky": 0.49, "hurried": 0.6},
        )
    )
    page = {"served": 5, "default": 10, "lucky": 6, "hurried": 6, "missed": 4, "slow": 20}
    assert key.measured == ("default", "served", "lucky", "hurried", "missed", "slow")
    assert key.close(screened(page)) == ("served", "default", "missed", "lucky", "hurried")


def test_only_the_fastest_are_compared_of_many_that_are_close() -> None:
    measured = {f"k{n:02}": 0.5 * (1 + CLOSE * n / 50) for n in range(50)}
    key = tuned(cast("1", {"served": 0.5, **measured}, {}))
    close = key.close(screened({"served": 0.5, "default": 1.0}))
    assert close == ("served", "default", *(f"k{n:02}" for n in range(MOST - 2)))


def test_a_key_of_which_nobody_has_voted_is_compared_with_its_default() -> None:
    key = tuned(served="default")
    assert key.measured == key.close(screened({"default": 1.0})) == ("default",)


def test_claims_count_keys_that_the_referee_can_tell() -> None:
    good, bad = judged(1.004, 0.5), judged(1.03, 0.5)
    assert (good.judgement, bad.judgement) == (Judgement.WITHIN, Judgement.BEYOND)
    spread = {**good.pages[0], "best": (100.0 / 1.03,) * 5}
    half = replace(good, pages=(*good.pages[:4], *((spread,) * 4)))
    assert half.judgement is Judgement.OPEN
    told, middle, slower, final, work = claims([good, bad, half])
    assert (told.value, told.ok) == (0.5, False)
    assert middle.value == pytest.approx(1 / 3)
    assert (slower.value, slower.ok) == (0, True)
    assert final.ok
    assert work.value == pytest.approx(60 / BEFORE[0.0])


def test_what_is_slower_than_its_default_and_what_is_not_final_miss_a_claim() -> None:
    slow = judged(1.0, 1.02, tuned(final=False))
    _, _, slower, final, _ = claims([slow, judged(1.0, 0.9)])
    assert (slower.value, slower.ok) == (1, False)
    assert (final.value, final.ok) == (0.5, False)


def test_an_interrupted_run_goes_on_behind_the_keys_that_it_kept(tmp_path: Path) -> None:
    file = tmp_path / "kept.jsonl"
    key = tuned(cast("1", {"served": 0.5, "default": 1.0}, {"served": 0.5}))
    KeptKeys.opened(file).add(judged(1.0, 0.5, key))
    again = KeptKeys.opened(file)
    assert again.judged == [judged(1.0, 0.5, key)]
    assert again.left([key.workload, "softmax:f32:m2n3"]) == ["softmax:f32:m2n3"]


def test_a_run_that_died_while_it_kept_a_key_goes_on_behind_those_before(tmp_path: Path) -> None:
    file = tmp_path / "kept.jsonl"
    file.touch()
    key = tuned(cast("1", {"served": 0.5, "default": 1.0}, {"served": 0.5}))
    KeptKeys.opened(file).add(judged(1.0, 0.5, key))
    whole = file.read_bytes()
    file.write_bytes(whole + whole.splitlines()[1][:40])
    again = KeptKeys.opened(file)
    assert again.judged == [judged(1.0, 0.5, key)]
    again.add(judged(1.0, 0.5, key))
    assert len(KeptKeys.opened(file).judged) == 2


def test_keys_of_another_commit_are_not_mixed_with_these(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "kept.jsonl"
    KeptKeys.opened(file)
    monkeypatch.setattr("bench.crowd.judged_keys.commit", lambda: "another")
    with pytest.raises(CannotMeasure, match="this is another on"):
        KeptKeys.opened(file)
    file.write_text("no head\n")
    with pytest.raises(CannotMeasure, match="holds no judged keys"):
        KeptKeys.opened(file)
