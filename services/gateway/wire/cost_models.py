"""Cost models as they are listed: never their bytes."""

from services.gateway.wire.model import WireModel


class ScoreWire(WireModel):
    """Means over races; a regret of 0.1 is a tenth longer than the best measured."""

    races: int
    correlation: float
    regret_top1: float
    regret_top5: float


class JudgedWire(WireModel):
    """`promise` is the order of the lite space on the same races."""

    model: ScoreWire
    promise: ScoreWire


class EvaluationWire(WireModel):
    """On devices and on shapes that the model has not seen; null where there are none."""

    devices: JudgedWire | None
    shapes: JudgedWire | None


class CostModelWire(WireModel):
    """`measurements` are those that there were when it was trained."""

    version: int
    sha256: str
    published: bool
    reason: str
    evaluation: EvaluationWire
    measurements: int
    trained_at: str


class CostModelList(WireModel):
    models: list[CostModelWire]


class TrainingAccepted(WireModel):
    """A training is on its way; a new line of the list says how it ended."""

    measurements: int
