"""From observations to a model that is published, or is not: the rule, without its storage."""

from collections.abc import Iterable
from dataclasses import dataclass

from kernelzoo.domain.target import TargetKind
from services.tuner.cost_model.evaluation import Evaluation, judge
from services.tuner.cost_model.heldout import Split, of_kind, split
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
    """None where there is too little to learn from, or too little to judge by.

    A target whose spaces the model orders no better than they are is not taught: of it the model
    knows nothing, and lets it be.
    """
    parts = split(races(observations))
    if _too_little(parts):
        return None
    model = train(parts.training)
    worthy = [kind for kind in TargetKind if _worthy(model, of_kind(parts, kind))]
    if worthy and any(race.device.kind not in worthy for race in parts.training):
        parts = of_kind(parts, *worthy)
        model = train(parts.training)
    evaluation = judge(model, parts.devices, parts.shapes)
    reason = "" if worthy else "beats the order of the lite space on no target with enough races"
    reason = _objection(model, evaluation, previous, parts) or reason
    return Lesson(
        model=model,
        evaluation=evaluation,
        published=not reason,
        reason=reason or "no worse than what is served, on the same held-out races",
    )


def _too_little(parts: Split) -> bool:
    judged_by = len(parts.devices) + len(parts.shapes)
    return len(parts.training) < FEWEST_RACES or judged_by < FEWEST_RACES


def _worthy(model: CostModel, parts: Split) -> bool:
    """Whether the model beats the order of the space on enough held-out races of one target."""
    if _too_little(parts):
        return False
    found = judge(model, parts.devices, parts.shapes)
    return found.loss < found.promise_loss


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
