"""The networks that are timed, and what our runtime should reach with them."""

from collections.abc import Mapping
from dataclasses import dataclass, field

IMAGE = {"batch": 1}


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkCase:
    """`dimensions`: extents of the axes that its ONNX file leaves open, `constants`: values of
    inputs that become constants. `warm`: how many times the peer's time of a call, `share`: of the
    register-only limit, `cold`: share of the peer's time to the first output."""

    name: str
    dimensions: Mapping[str, int] = field(default_factory=dict)
    constants: Mapping[str, int] = field(default_factory=dict)
    warm: float | None = None
    share: float | None = None
    cold: float | None = None


def _text(sequence: int) -> dict[str, int]:
    return {"batch": 1, "sequence": sequence}


CASES = (
    NetworkCase(name="resnet50", dimensions=IMAGE, warm=1.75, cold=0.5),
    NetworkCase(name="mobilenetv2", dimensions=IMAGE, warm=2.4),
    NetworkCase(name="t5-small", dimensions=_text(384), warm=1.85, share=0.86, cold=0.5),
    NetworkCase(name="roberta", dimensions=_text(384), warm=1.75, share=0.86, cold=0.5),
    NetworkCase(name="bart", dimensions=_text(384), warm=1.75, share=0.86),
    NetworkCase(name="gpt2", dimensions=_text(384), warm=1.65, share=0.86),
    NetworkCase(name="minilm", dimensions=_text(128), warm=1.8, share=0.86),
    NetworkCase(name="whisper-encoder", dimensions=IMAGE, warm=1.7, share=0.86),
)
OTHERS = (
    NetworkCase(name="vit", dimensions=IMAGE),
    NetworkCase(name="efficientnet", dimensions=IMAGE),
    NetworkCase(name="efficientnetv2", dimensions=IMAGE),
    NetworkCase(name="mobilenetv3", dimensions=IMAGE),
    NetworkCase(name="yolo"),
    NetworkCase(name="unet"),
)
"""Other operators: nothing is claimed of their speed."""
_SEEN = {"seen": 20}
"""Positions of the encoder that a decoder reads."""
_STEP = {"batch": 1, "past": 24}
_MASKED_STEP = _STEP | {"total": 25}
IMPORTED = (
    NetworkCase(name="bert-tiny", dimensions=_text(32)),
    NetworkCase(name="resnet18-dynamo", dimensions=IMAGE),
    NetworkCase(name="minilm-dynamo", dimensions=_text(128)),
    NetworkCase(name="distilbert", dimensions=_text(32)),
    NetworkCase(name="clip-text", dimensions=_text(24)),
    NetworkCase(name="clip-vision", dimensions=IMAGE),
    NetworkCase(name="sam-decoder"),
    NetworkCase(name="whisper-decoder", dimensions=_text(12) | _SEEN),
    NetworkCase(name="t5-decoder", dimensions=_text(12) | _SEEN),
    NetworkCase(name="gpt2-step", dimensions=_MASKED_STEP),
    NetworkCase(name="llama-step", dimensions=_MASKED_STEP),
    NetworkCase(name="bart-decoder-step", dimensions=_STEP | _SEEN),
    NetworkCase(name="single-shot"),
)
"""Small ones of other exporters and parts of networks: they are imported, and none is timed."""
BEYOND = (*OTHERS, *IMPORTED)
EVERY = tuple(case.name for case in (*CASES, *BEYOND))
TINY = NetworkCase(name="digits")
"""The network of `examples/digits`, which needs no PyTorch."""
