"""From observations to a model, and the rule by which it is published or not."""

from collections.abc import Iterable
from dataclasses import dataclass

from kernelzoo.domain.target import MEASURED
from services.tuner.cost_model.dataset import Observation, Split, on_targets, races, split
from services.tuner.cost_model.evaluation import Evaluation, evaluate
from services.tuner.cost_model.model import CostModel, train

FEWEST_RACES = 12
"""Fewer races, to train on or to judge on, give scores that are chance."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingResult:
    """A model, its evaluation on held-out races, and whether it is published, with the reason."""

    model: CostModel
    evaluation: Evaluation
    published: bool
    reason: str


def train_and_evaluate(
    observations: Iterable[Observation], previous: CostModel | None
) -> TrainingResult | None:
    """None where there are too few races to train on, or to judge on.

    A target on which the model is no better than the order of the lite space is left out of the
    training, and the model then keeps that order for it (`CostModel.knows`).
    """
    parts = split(races(observations))
    if _too_few(parts):
        return None
    model = train(parts.training)
    worthy = [each for each in MEASURED if _beats_baseline(model, on_targets(parts, each))]
    if worthy and any(race.device.target not in worthy for race in parts.training):
        parts = on_targets(parts, *worthy)
        model = train(parts.training)
    evaluation = evaluate(model, parts.devices, parts.shapes)
    reason = "" if worthy else "beats the order of the lite space on no target with enough races"
    reason = _objection(model, evaluation, previous, parts) or reason
    return TrainingResult(
        model=model,
        evaluation=evaluation,
        published=not reason,
        reason=reason or "no worse than what is served, on the same held-out races",
    )


def _too_few(parts: Split) -> bool:
    judged_by = len(parts.devices) + len(parts.shapes)
    return len(parts.training) < FEWEST_RACES or judged_by < FEWEST_RACES


def _beats_baseline(model: CostModel, parts: Split) -> bool:
    """Returns whether the model beats the order of the lite space on enough held-out races of a
    target."""
    if _too_few(parts):
        return False
    found = evaluate(model, parts.devices, parts.shapes)
    return found.loss < found.promise_loss


def _objection(
    model: CostModel, evaluation: Evaluation, previous: CostModel | None, parts: Split
) -> str:
    """Says why the model must not be published, or ''."""
    if evaluation.loss >= evaluation.promise_loss:
        return (
            f"loses {evaluation.loss:.3f} where the order of the lite space loses "
            f"{evaluation.promise_loss:.3f}"
        )
    if previous is None:
        return ""
    if previous.version == model.version:
        return "the same model is served already"
    devices = previous.seen.without_devices(parts.devices)
    shapes = previous.seen.without_shapes(parts.shapes)
    if not devices and not shapes:
        return ""
    ours, theirs = evaluate(model, devices, shapes).loss, evaluate(previous, devices, shapes).loss
    if ours > theirs:
        return f"loses {ours:.3f} where the previous model loses {theirs:.3f}"
    return ""
