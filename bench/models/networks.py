"""Networks by their configurations alone: random weights, example inputs, names of outputs.

No weights are downloaded. Transformers come from `transformers`, classifiers from `torchvision`.
A detector and a U-Net are written in `convolutional.py`, as neither package has them.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from types import ModuleType

import torch
from torch import Tensor, nn

from bench.models.convolutional import Detector, UNet

Inputs = Mapping[str, Tensor]

SEQUENCE = 384
TAIL = 17
"""Positions at the end of each sequence that the attention mask leaves out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportedNetwork:
    """`axes`: by input or output, the names of the axes whose extents the file leaves open. `lite`:
    whether LiteRT's converter is to make something of it, too."""

    name: str
    build: Callable[[], nn.Module]
    inputs: Callable[[torch.Generator], Inputs]
    outputs: tuple[str, ...]
    axes: Mapping[str, Mapping[int, str]] = field(default_factory=dict)
    dynamo: bool = False
    external_data: bool = False
    lite: bool = False


class Picked(nn.Module):
    """A model of `transformers` whose inputs are positional and whose outputs are tensors."""

    def __init__(self, model: nn.Module, inputs: tuple[str, ...], outputs: tuple[str, ...]) -> None:
        super().__init__()
        self.model = model
        self._inputs = inputs
        self._outputs = outputs

    def forward(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        feeds = dict(zip(self._inputs, tensors, strict=True))
        found = self.model(**feeds, return_dict=True, **self._without_cache())
        return tuple(getattr(found, name) for name in self._outputs)

    def _without_cache(self) -> Mapping[str, bool]:
        return {"use_cache": False} if hasattr(self.model.config, "use_cache") else {}


def _images(side: int) -> Callable[[torch.Generator], Inputs]:
    return lambda g: {"x": torch.randn(1, 3, side, side, generator=g)}


def _tokens(vocabulary: int, sequence: int, *names: str) -> Callable[[torch.Generator], Inputs]:
    """Ids and masks by the names that they have in `transformers`."""

    def make(g: torch.Generator) -> Inputs:
        mask = torch.ones(1, sequence, dtype=torch.int64)
        mask[:, -TAIL:] = 0
        ids = {
            name: torch.randint(3, vocabulary, (1, sequence), generator=g)
            for name in names
            if name.endswith("input_ids")
        }
        types = (torch.arange(sequence) >= sequence // 2).to(torch.int64)[None]
        others = {"token_type_ids": types}
        return {name: ids.get(name, others.get(name, mask)) for name in names}

    return make


def _open(*names: str) -> dict[str, dict[int, str]]:
    return {name: {0: "batch", 1: "sequence"} for name in names}


def _transformer(
    model: str,
    config: str,
    inputs: tuple[str, ...],
    outputs: tuple[str, ...],
    /,
    **settings: object,
) -> Callable[[], nn.Module]:
    def build() -> nn.Module:
        torchvision()  # transformers imports it where it is installed
        import transformers

        made = getattr(transformers, config)(attn_implementation="eager", **settings)
        return Picked(getattr(transformers, model)(made), inputs, outputs)

    return build


def _classifier(name: str) -> Callable[[], nn.Module]:
    def build() -> nn.Module:
        return getattr(torchvision().models, name)(weights=None)

    return build


_OPERATORS = torch.library.Library("torchvision", "FRAGMENT")


def torchvision() -> ModuleType:
    """PyPI's torchvision is built for CUDA: with a build of torch for the CPU alone its own
    operators are missing, and its Python part loads only where their names are known."""
    for name in ("nms", "qnms"):
        if torch.version.cuda is None and not hasattr(torch.ops.torchvision, name):
            _OPERATORS.define(f"{name}(Tensor dets, Tensor scores, float threshold) -> Tensor")
    return import_module("torchvision")


IDS = ("input_ids", "attention_mask")
BERT = ("input_ids", "attention_mask", "token_type_ids")
HIDDEN = ("last_hidden_state",)
MINILM = {
    "vocab_size": 30522,
    "hidden_size": 384,
    "num_hidden_layers": 6,
    "num_attention_heads": 12,
    "intermediate_size": 1536,
}
TINY = {
    "vocab_size": 2000,
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 256,
}
WHISPER = {
    "vocab_size": 51865,
    "d_model": 384,
    "encoder_layers": 4,
    "decoder_layers": 4,
    "encoder_attention_heads": 6,
    "decoder_attention_heads": 6,
    "encoder_ffn_dim": 1536,
    "decoder_ffn_dim": 1536,
}


def _whisper_encoder() -> nn.Module:
    torchvision()
    from transformers import WhisperConfig, WhisperModel

    config = WhisperConfig(attn_implementation="eager", **WHISPER)
    return Picked(WhisperModel(config).encoder, ("input_features",), HIDDEN)


def _log_mel(g: torch.Generator) -> Inputs:
    return {"input_features": torch.randn(1, 80, 3000, generator=g)}


def _bert(name: str, settings: Mapping[str, int], sequence: int, **more: bool) -> ExportedNetwork:
    return ExportedNetwork(
        name=name,
        build=_transformer("BertModel", "BertConfig", BERT, HIDDEN, **settings),
        inputs=_tokens(settings["vocab_size"], sequence, *BERT),
        outputs=HIDDEN,
        axes=_open(*BERT, *HIDDEN),
        **more,
    )


NETWORKS = (
    ExportedNetwork(
        name="resnet50",
        build=_classifier("resnet50"),
        inputs=_images(224),
        outputs=("y",),
        axes={"x": {0: "batch"}, "y": {0: "batch"}},
        lite=True,
    ),
    ExportedNetwork(
        name="mobilenetv2",
        build=_classifier("mobilenet_v2"),
        inputs=_images(224),
        outputs=("y",),
        axes={"x": {0: "batch"}, "y": {0: "batch"}},
        lite=True,
    ),
    _bert("minilm", MINILM, 128, lite=True),
    ExportedNetwork(
        name="t5-small",
        build=_transformer(
            "T5EncoderModel",
            "T5Config",
            IDS,
            HIDDEN,
            d_model=512,
            d_kv=64,
            d_ff=2048,
            num_layers=6,
            num_heads=8,
            vocab_size=32128,
        ),
        inputs=_tokens(32128, SEQUENCE, *IDS),
        outputs=HIDDEN,
        axes=_open(*IDS, *HIDDEN),
        lite=True,
    ),
    ExportedNetwork(
        name="roberta",
        build=_transformer(
            "RobertaModel",
            "RobertaConfig",
            IDS,
            HIDDEN,
            vocab_size=50265,
            max_position_embeddings=514,
            type_vocab_size=1,
        ),
        inputs=_tokens(50265, SEQUENCE, *IDS),
        outputs=HIDDEN,
        axes=_open(*IDS, *HIDDEN),
        lite=True,
    ),
    ExportedNetwork(
        name="gpt2",
        build=_transformer("GPT2LMHeadModel", "GPT2Config", IDS, ("logits",)),
        inputs=_tokens(50257, SEQUENCE, *IDS),
        outputs=("logits",),
        axes=_open(*IDS, "logits"),
        lite=True,
    ),
    ExportedNetwork(
        name="bart",
        build=_transformer(
            "BartModel",
            "BartConfig",
            (*IDS, "decoder_input_ids"),
            HIDDEN,
            d_model=768,
            encoder_layers=6,
            decoder_layers=6,
            encoder_ffn_dim=3072,
            decoder_ffn_dim=3072,
            encoder_attention_heads=12,
            decoder_attention_heads=12,
            vocab_size=50265,
        ),
        inputs=_tokens(50265, SEQUENCE, *IDS, "decoder_input_ids"),
        outputs=HIDDEN,
        axes=_open(*IDS, "decoder_input_ids", *HIDDEN),
        lite=True,
    ),
    ExportedNetwork(
        name="whisper-encoder",
        build=_whisper_encoder,
        inputs=_log_mel,
        outputs=HIDDEN,
        axes={"input_features": {0: "batch"}, "last_hidden_state": {0: "batch"}},
        lite=True,
    ),
    _bert("bert-tiny", TINY, 32),
    ExportedNetwork(
        name="resnet18-dynamo",
        build=_classifier("resnet18"),
        inputs=_images(224),
        outputs=("y",),
        axes={"x": {0: "batch"}, "y": {0: "batch"}},
        dynamo=True,
    ),
    _bert("minilm-dynamo", MINILM, 128, dynamo=True, external_data=True),
    ExportedNetwork(
        name="vit",
        build=_transformer(
            "ViTModel",
            "ViTConfig",
            ("pixel_values",),
            HIDDEN,
            hidden_size=384,
            num_hidden_layers=12,
            num_attention_heads=6,
            intermediate_size=1536,
        ),
        inputs=lambda g: {"pixel_values": torch.randn(1, 3, 224, 224, generator=g)},
        outputs=HIDDEN,
        axes={"pixel_values": {0: "batch"}, "last_hidden_state": {0: "batch"}},
    ),
    ExportedNetwork(
        name="efficientnet",
        build=_classifier("efficientnet_b0"),
        inputs=_images(224),
        outputs=("y",),
        axes={"x": {0: "batch"}, "y": {0: "batch"}},
    ),
    ExportedNetwork(
        name="efficientnetv2",
        build=_classifier("efficientnet_v2_s"),
        inputs=_images(224),
        outputs=("y",),
        axes={"x": {0: "batch"}, "y": {0: "batch"}},
    ),
    ExportedNetwork(
        name="mobilenetv3",
        build=_classifier("mobilenet_v3_small"),
        inputs=_images(224),
        outputs=("y",),
        axes={"x": {0: "batch"}, "y": {0: "batch"}},
    ),
    ExportedNetwork(name="yolo", build=Detector, inputs=_images(320), outputs=("boxes", "scores")),
    ExportedNetwork(name="unet", build=UNet, inputs=_images(128), outputs=("y",)),
)
