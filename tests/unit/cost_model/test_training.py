"""Training and publication of the cost model, on analytic devices (see `fixtures.analytic`)."""

from dataclasses import replace

import pytest

from fixtures.analytic import CORES, WORKLOADS, observed
from kernelzoo.domain.candidate import Candidate
from kernelzoo.domain.device import DeviceClass
from kernelzoo.domain.target import TargetKind
from kernelzoo.domain.workload import Workload
from services.tuner.cost_model.dataset import Observation, Seen, races, split
from services.tuner.cost_model.evaluation import score
from services.tuner.cost_model.model import (
    CostModel,
    Hyperparameters,
    costs_in_order,
    evaluation_order,
    train,
)
from services.tuner.cost_model.training import TrainingResult, train_and_evaluate
from services.tuner.schedules.registry import lite_space


@pytest.fixture(scope="module")
def crowd() -> tuple[Observation, ...]:
    return tuple(observed())


@pytest.fixture(scope="module")
def trained(crowd: tuple[Observation, ...]) -> TrainingResult:
    learned = train_and_evaluate(crowd, None)
    assert learned is not None
    return learned


def worse(crowd: tuple[Observation, ...]) -> CostModel:
    """A model of hardly any trees."""
    return train(split(races(crowd)).training, Hyperparameters(rounds=1, depth=1))


def test_a_model_ranks_well_on_unseen_devices_and_on_unseen_shapes(trained: TrainingResult) -> None:
    assert trained.published
    for compared in trained.evaluation.comparisons:
        assert compared.model.correlation > 0.7
        assert compared.model.regret_top5 < 0.02
        assert compared.model.loss < compared.promise.loss


def test_the_same_observations_give_the_same_bytes(
    crowd: tuple[Observation, ...], trained: TrainingResult
) -> None:
    again = train_and_evaluate(crowd, None)
    assert again is not None
    assert again.model.version == trained.model.version


def test_a_model_is_read_back_from_its_bytes(
    crowd: tuple[Observation, ...], trained: TrainingResult
) -> None:
    race = races(crowd)[0]
    candidates = [each.candidate for each in race.observations]
    read = CostModel.read(trained.model.body)
    assert read.costs(candidates, race.device) == trained.model.costs(candidates, race.device)
    assert read.seen == trained.model.seen


def test_held_out_devices_and_shapes_are_not_trained_on(
    crowd: tuple[Observation, ...], trained: TrainingResult
) -> None:
    parts = split(races(crowd))
    held_out = Seen.of((*parts.devices,)).devices - Seen.of(parts.training).devices
    assert len(held_out) == 3
    assert trained.model.seen.devices.isdisjoint(held_out)
    unseen_shapes = Seen.of(parts.shapes).shapes
    assert len(unseen_shapes) == 2
    assert trained.model.seen.shapes.isdisjoint(unseen_shapes)


def test_a_better_model_replaces_a_worse_one(crowd: tuple[Observation, ...]) -> None:
    learned = train_and_evaluate(crowd, worse(crowd))
    assert learned is not None
    assert learned.published


def test_a_model_worse_than_the_previous_is_not_published(
    crowd: tuple[Observation, ...], trained: TrainingResult
) -> None:
    """Half of the crowd reports the time of another candidate, so there is less to learn."""
    parts = split(races(crowd))
    shuffled = []
    for race in parts.training:
        times = [each.relative_time for each in race.observations]
        rotated = times[len(times) // 3 :] + times[: len(times) // 3]
        shuffled += [
            replace(each, relative_time=time)
            for each, time in zip(race.observations, rotated, strict=True)
        ]
    judges = [each for race in (*parts.devices, *parts.shapes) for each in race.observations]
    learned = train_and_evaluate((*shuffled, *judges), trained.model)
    assert learned is not None
    assert not learned.published
    assert "loses" in learned.reason


def test_a_model_is_not_published_twice(
    crowd: tuple[Observation, ...], trained: TrainingResult
) -> None:
    again = train_and_evaluate(crowd, trained.model)
    assert again is not None
    assert (again.published, again.reason) == (False, "the same model is served already")


def test_a_previous_model_is_not_judged_on_what_it_has_seen(
    crowd: tuple[Observation, ...],
) -> None:
    """It was trained on all of them, so its scores say nothing; the new model is published."""
    cheat = train(races(crowd))
    learned = train_and_evaluate(crowd, cheat)
    assert learned is not None
    assert learned.published


def test_no_model_is_trained_on_too_few_races() -> None:
    assert train_and_evaluate(observed(CORES[:2], WORKLOADS[:3]), None) is None


def test_a_single_device_is_judged_on_shapes_alone() -> None:
    shapes = tuple(Workload.of("matmul", (16 * n, 128, 256)) for n in range(1, 61))
    learned = train_and_evaluate(observed(CORES[:1], shapes), None)
    assert learned is not None
    assert learned.evaluation.devices is None
    assert learned.evaluation.shapes is not None
    assert learned.evaluation.shapes.model.races == 12


def test_configs_of_an_unknown_target_are_learned_by_their_settings() -> None:
    """A second target needs no line of the cost model to be ordered by it."""

    def made(workload: Workload, warps: int) -> Candidate:
        return Candidate(
            workload=workload, target=TargetKind.WEBGPU, config=(("warps", warps),), requires=()
        )

    crowd = [
        Observation(
            device=core.probed,
            candidate=made(workload, warps),
            relative_time=1 + abs(warps - (4 if core.fused else 16)),
        )
        for core in CORES
        for workload in WORKLOADS
        for warps in (1, 2, 4, 8, 16)
    ]
    learned = train_and_evaluate(crowd, None)
    assert learned is not None
    for core, best in ((CORES[0], 4), (CORES[1], 16)):
        space = [made(WORKLOADS[0], warps) for warps in (1, 2, 4, 8, 16)]
        assert dict(learned.model.order(space, core.probed)[0].config)["warps"] == best


@pytest.mark.parametrize(("fastest_last", "taught"), [(True, True), (False, False)])
def test_a_target_whose_space_is_ordered_well_is_left_as_it_is(
    crowd: tuple[Observation, ...], *, fastest_last: bool, taught: bool
) -> None:
    """And the other target is learned all the same."""
    space = {each: lite_space(each, TargetKind.WEBGPU)[:8] for each in WORKLOADS}
    gpus = [
        replace(
            core.probed,
            device_class=DeviceClass.parse(f"{core.probed.hardware}:r101-010:webgpu"),
            probe=None,
        )
        for core in CORES
    ]
    measured = [
        Observation(
            device=gpu, candidate=each, relative_time=9.0 - place if fastest_last else 1.0 + place
        )
        for gpu in gpus
        for workload in WORKLOADS
        for place, each in enumerate(space[workload])
    ]
    learned = train_and_evaluate((*crowd, *measured), None)
    assert learned is not None
    assert learned.published
    assert (learned.model.knows(TargetKind.WASM), learned.model.knows(TargetKind.WEBGPU)) == (
        True,
        taught,
    )
    in_order = space[WORKLOADS[0]]
    ordered = learned.model.order(in_order, gpus[0])
    assert (ordered == in_order) is not taught


def test_a_perfect_order_has_no_regret_and_a_reversed_one_the_most(
    crowd: tuple[Observation, ...],
) -> None:
    some = races(crowd)[:4]
    perfect = score(some, lambda race: [each.relative_time for each in race.observations])
    assert perfect.correlation == pytest.approx(1)
    assert perfect.regret_top1 == 0
    turned = score(some, lambda race: [-each.relative_time for each in race.observations])
    assert turned.correlation == pytest.approx(-1)
    silent = score(some, lambda race: [0.0] * len(race.observations))
    assert silent.correlation == 0


def test_outside_evidence_moves_a_few_candidates_forward_and_never_to_the_first_place() -> None:
    ranked = ("a", "b", "c", "d", "e", "f")
    claims = {"f": 1.0, "e": 1.1, "d": 1.3, "c": 1.2, "a": 1.0, "stranger": 0.1}
    assert evaluation_order(ranked, claims) == ("a", "f", "e", "c", "b", "d")
    assert evaluation_order(ranked, {}) == ranked
    costs = dict(zip(ranked, range(6), strict=True))
    assert costs_in_order(ranked, costs) == [0, 1, 2, 3, 4, 5]
    order = evaluation_order(ranked, claims)
    assert costs_in_order(order, costs) == [0, 1, 1, 1, 1, 3], (
        "of claims as much as of what follows"
    )
