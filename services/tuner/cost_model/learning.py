"""From observations to a model that is published, or is not: the rule, without its storage."""

from collections.abc import Iterable
from dataclasses import dataclass

from services.tuner.cost_model.evaluation import Evaluation, judge
from services.tuner.cost_model.heldout import Split, split
from services.tuner.cost_model.model import CostModel, train
from services.tuner.cost_model.observation import Observation, races

FEWEST_RACES = 12
"""Below this a score is chance."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lesson:
    """A model with its evaluation on all that was held out, and the decision with its reason."""

    model: CostModel
    evaluation: Evaluation
    published: bool
    reason: str


def learn(observations: Iterable[Observation], previous: CostModel | None) -> Lesson | None:
    """None where there is too little to learn from, or too little to judge by."""
    parts = split(races(observations))
    judged_by = len(parts.devices) + len(parts.shapes)
    if len(parts.training) < FEWEST_RACES or judged_by < FEWEST_RACES:
        return None
    model = train(parts.training)
    evaluation = judge(model, parts.devices, parts.shapes)
    reason = _objection(model, evaluation, previous, parts)
    return Lesson(
        model=model,
        evaluation=evaluation,
        published=not reason,
        reason=reason or "no worse than what is served, on the same held-out races",
    )


def _objection(
    model: CostModel, evaluation: Evaluation, previous: CostModel | None, parts: Split
) -> str:
    """Why the model is not published, or ''."""
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
    ours, theirs = judge(model, devices, shapes).loss, judge(previous, devices, shapes).loss
    if ours > theirs:
        return f"loses {ours:.3f} where the previous model loses {theirs:.3f}"
    return ""
