"""Learning from what browsers of three machines really measured (see fixtures/recorded)."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from fixtures.recorded import dataset
from fixtures.recorded.answer import RecordedAnswer, RecordedSession, take_in
from kernelzoo.domain.device import Hardware
from services.tuner.cost_model.dataset import Observation, races, split
from services.tuner.cost_model.evaluation import ScoreComparison
from services.tuner.cost_model.training import TrainingResult, train_and_evaluate


@pytest.fixture(scope="module")
def observations() -> Sequence[Observation]:
    return tuple(dataset.read().observations())


@pytest.fixture(scope="module")
def lesson(observations: Sequence[Observation]) -> TrainingResult:
    learned = train_and_evaluate(observations, None)
    assert learned is not None
    return learned


def test_the_data_set_holds_real_models_in_many_settings_of_three_engines(
    observations: Sequence[Observation],
) -> None:
    every = races(observations)
    assert len({race.device.hardware for race in every}) == 21
    assert {race.device.engine.name for race in every} == {"Chromium", "Firefox", "Safari"}
    families = {each.candidate.workload.operator.family for each in observations}
    assert families == {"contraction", "convolution", "reduction", "elementwise"}
    parts = split(every)
    assert min(len(parts.training), len(parts.devices), len(parts.shapes)) > 12


@pytest.mark.parametrize("held_out", ["devices", "shapes"])
def test_a_model_beats_the_order_of_the_space_on_what_it_has_not_seen(
    lesson: TrainingResult, held_out: str
) -> None:
    judged: ScoreComparison | None = getattr(lesson.evaluation, held_out)
    assert judged is not None
    assert judged.model.correlation > judged.promise.correlation
    assert judged.model.loss < judged.promise.loss


def test_a_model_of_real_measurements_is_published(lesson: TrainingResult) -> None:
    assert lesson.published, lesson.reason


def test_the_best_choice_differs_between_engines_so_that_there_is_something_to_learn(
    observations: Sequence[Observation],
) -> None:
    """One order for all devices would do otherwise."""
    best: dict[str, set[object]] = {}
    for race in races(observations):
        fastest = min(race.observations, key=lambda each: each.relative_time)
        best.setdefault(race.workload_key, set()).add(fastest.candidate.config)
    assert sum(len(configs) > 1 for configs in best.values()) > len(best) / 2


def test_a_device_that_is_recorded_later_leaves_others_what_they_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = dataset.read()
    monkeypatch.setattr(dataset, "DATASET", tmp_path / "measurements.json.xz")
    dataset.write(before)
    known = [each.to_candidate() for each in before.candidates[:3]]
    newer = replace(known[0], config=(("family", "newer"),))
    first = before.devices[0]
    answer = RecordedAnswer(
        session=RecordedSession(
            hardware=Hardware(
                cpu_architecture="x86", logical_cores=2, gpu_vendor="", gpu_architecture=""
            ),
            engine=first.engine,
            features=("simd128",),
            rho="r3-000",
            peak_gflops=50.0,
            probe=first.probe,
        ),
        times={newer.candidate_id: 0.5, known[2].candidate_id: 0.25},
    )
    take_in("another", "a newer machine", [known[2], newer, known[0]], [answer])
    after = dataset.read()
    assert [each.name for each in after.devices] == [
        *(each.name for each in before.devices),
        "another",
    ]
    assert after.devices[-1].passes == [[0.25, 0.5, None]]
    assert after.devices[0].passes == [[times[2], None, times[0]] for times in first.passes]
