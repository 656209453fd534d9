"""Parts of larger models as they are exported for pages: encoders of one kind of input, decoders of
one step with their caches, and heads whose results are chosen on the spot. All are small."""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

import torch
from torch import Tensor, nn

from bench.models.networks import HIDDEN, IDS, ExportedNetwork, Inputs, Picked, torchvision

WORDS = 2_000
WIDTH = 64
HEADS = 4
HEAD = WIDTH // HEADS
LAYERS = 2
PAST = 24
"""Positions that a cache holds when a step begins."""
SEEN = 20
"""Positions that the encoder had made for a decoder."""
SMALL = {"vocab_size": WORDS, "attn_implementation": "eager"}
ENCODER_DECODER = {
    **SMALL,
    "d_model": WIDTH,
    "encoder_layers": LAYERS,
    "decoder_layers": LAYERS,
    "encoder_attention_heads": HEADS,
    "decoder_attention_heads": HEADS,
    "encoder_ffn_dim": 4 * WIDTH,
    "decoder_ffn_dim": 4 * WIDTH,
}


def _transformers() -> Any:
    torchvision()  # transformers imports it where it is installed
    return import_module("transformers")


class DecoderStep(nn.Module):
    """One step of a decoder: of its inputs, the last are keys and values, by layer, of positions
    that were there before; the outputs are logits, or hidden states, and all keys and values.

    `crossed` is of a decoder that reads an encoder's output: `encoder_hidden_states` is an input.
    """

    def __init__(
        self, model: nn.Module, names: tuple[str, ...], output: str, *, crossed: bool = False
    ) -> None:
        super().__init__()
        self.model = model
        self._names = names
        self._output = output
        self._crossed = crossed

    def forward(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        found = _transformers()
        feeds: dict[str, Any] = dict(zip(self._names, tensors, strict=False))
        past = tensors[len(self._names) :]
        own = found.DynamicCache()
        for layer in range(LAYERS):
            own.update(past[2 * layer], past[2 * layer + 1], layer)
        cache = own
        if self._crossed:
            cache = found.EncoderDecoderCache(own, found.DynamicCache())
        made = self.model(**feeds, past_key_values=cache, use_cache=True, return_dict=True)
        kept = [tensor for layer in own.layers for tensor in (layer.keys, layer.values)]
        return (getattr(made, self._output), *kept)


def _caches(prefix: str) -> tuple[str, ...]:
    return tuple(f"{prefix}.{layer}.{part}" for layer in range(LAYERS) for part in ("key", "value"))


def _step_inputs(*names: str) -> Callable[[torch.Generator], Inputs]:
    def make(g: torch.Generator) -> Inputs:
        mask = torch.ones(1, PAST + 1, dtype=torch.int64)
        mask[:, :3] = 0
        given = {
            "input_ids": torch.randint(3, WORDS, (1, 1), generator=g),
            "attention_mask": mask,
            "position_ids": torch.tensor([[PAST - 3]]),
            "encoder_hidden_states": torch.randn(1, SEEN, WIDTH, generator=g),
            "encoder_attention_mask": (torch.arange(SEEN) < SEEN - 5).to(torch.int64)[None],
        }
        past = {
            name: torch.randn(1, HEADS, PAST, HEAD, generator=g)
            for name in _caches("past_key_values")
        }
        return {name: given[name] for name in names} | past

    return make


def _step(
    name: str, build: Callable[[], nn.Module], names: tuple[str, ...], output: str
) -> ExportedNetwork:
    past, present = _caches("past_key_values"), _caches("present")
    return ExportedNetwork(
        name=name,
        build=build,
        inputs=_step_inputs(*names),
        outputs=(output, *present),
        axes={
            **{each: {0: "batch", 2: "past"} for each in past},
            **{each: {0: "batch", 2: "total"} for each in present},
            **{each: {0: "batch"} for each in ("input_ids", "position_ids") if each in names},
            **{each: {0: "batch", 1: "total"} for each in ("attention_mask",) if each in names},
            **{
                each: {0: "batch", 1: "seen"}
                for each in ("encoder_hidden_states", "encoder_attention_mask")
                if each in names
            },
            output: {0: "batch"},
        },
    )


GPT2_STEP = ("input_ids", "attention_mask", "position_ids")
WHISPER_PROMPT = (*IDS, "encoder_hidden_states")
CROSSED_STEP = ("input_ids", "encoder_hidden_states", "encoder_attention_mask")


def _gpt2() -> nn.Module:
    found = _transformers()
    config = found.GPT2Config(n_embd=WIDTH, n_layer=LAYERS, n_head=HEADS, n_positions=64, **SMALL)
    return DecoderStep(found.GPT2LMHeadModel(config), GPT2_STEP, "logits")


def _llama() -> nn.Module:
    found = _transformers()
    config = found.LlamaConfig(
        hidden_size=WIDTH,
        intermediate_size=3 * WIDTH,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        num_key_value_heads=HEADS,
        **SMALL,
    )
    return DecoderStep(found.LlamaForCausalLM(config), GPT2_STEP, "logits")


def _bart_decoder() -> nn.Module:
    found = _transformers()
    config = found.BartConfig(max_position_embeddings=64, **ENCODER_DECODER)
    model = found.BartModel(config).decoder
    return DecoderStep(model, CROSSED_STEP, HIDDEN[0], crossed=True)


def _whisper_decoder() -> nn.Module:
    found = _transformers()
    config = found.WhisperConfig(
        max_source_positions=SEEN,
        max_target_positions=64,
        num_mel_bins=16,
        pad_token_id=0,
        **ENCODER_DECODER,
    )
    return Picked(found.WhisperModel(config).decoder, WHISPER_PROMPT, HIDDEN)


def _t5_decoder() -> nn.Module:
    found = _transformers()
    config = found.T5Config(
        d_model=WIDTH, d_kv=HEAD, d_ff=4 * WIDTH, num_layers=LAYERS, num_heads=HEADS, **SMALL
    )
    return Picked(found.T5Model(config).decoder, (*IDS, *CROSSED_STEP[1:]), HIDDEN)


def _prompt(sequence: int, *names: str) -> Callable[[torch.Generator], Inputs]:
    def make(g: torch.Generator) -> Inputs:
        encoded = _step_inputs("encoder_hidden_states", "encoder_attention_mask")(g)
        given = {
            "input_ids": torch.randint(3, WORDS, (1, sequence), generator=g),
            "attention_mask": (torch.arange(sequence) < sequence - 4).to(torch.int64)[None],
        }
        return {name: (given | dict(encoded))[name] for name in names}

    return make


def _text(*names: str) -> Mapping[str, Mapping[int, str]]:
    open_ = {name: {0: "batch", 1: "sequence"} for name in names}
    crossed = {name: {0: "batch", 1: "seen"} for name in names if name.startswith("encoder_")}
    return open_ | crossed


def _clip(kind: str, output: str, name: str) -> Callable[[], nn.Module]:
    def build() -> nn.Module:
        found = _transformers()
        sizes: dict[str, Any] = {
            "hidden_size": WIDTH,
            "intermediate_size": 4 * WIDTH,
            "num_hidden_layers": LAYERS,
            "num_attention_heads": HEADS,
            "projection_dim": 32,
            "attn_implementation": "eager",
        }
        if kind == "Text":
            sizes |= {"vocab_size": WORDS, "eos_token_id": WORDS - 1, "bos_token_id": 1}
        else:
            sizes |= {"image_size": 64, "patch_size": 16}
        config = getattr(found, f"CLIP{kind}Config")(**sizes)
        model = getattr(found, f"CLIP{kind}ModelWithProjection")(config)
        return Picked(model, IDS if name == "input_ids" else (name,), (output, HIDDEN[0]))

    return build


def _words_with_an_end(g: torch.Generator) -> Inputs:
    ids = torch.randint(3, WORDS - 1, (1, 24), generator=g)
    ids[:, 20] = WORDS - 1
    return {"input_ids": ids, "attention_mask": (torch.arange(24) <= 20).to(torch.int64)[None]}


class MaskDecoder(nn.Module):
    """Segment Anything: points of a prompt and an encoded image become masks and scores."""

    def __init__(self) -> None:
        super().__init__()
        found = _transformers()
        shared = {"hidden_size": WIDTH, "attn_implementation": "eager"}
        config = found.SamConfig(
            vision_config={
                "hidden_size": WIDTH,
                "output_channels": WIDTH,
                "num_pos_feats": WIDTH // 2,
                "num_hidden_layers": 1,
                "num_attention_heads": HEADS,
                "image_size": 128,
                "global_attn_indexes": [0],
            },
            prompt_encoder_config={
                "hidden_size": WIDTH,
                "image_size": 128,
                "patch_size": 16,
                "image_embedding_size": 8,
                "mask_input_channels": 16,
            },
            mask_decoder_config={
                **shared,
                "mlp_dim": 4 * WIDTH,
                "num_attention_heads": HEADS,
                "iou_head_hidden_dim": WIDTH,
            },
        )
        model = found.SamModel(config)
        self.shared_image_embedding = model.shared_image_embedding
        self.prompt_encoder = model.prompt_encoder
        self.mask_decoder = model.mask_decoder
        self.model = model

    def forward(self, embeddings: Tensor, points: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        places = self.model.get_image_wide_positional_embeddings()
        sparse, dense = self.prompt_encoder(
            input_points=points, input_labels=labels, input_boxes=None, input_masks=None
        )
        masks, scores, *_ = self.mask_decoder(
            image_embeddings=embeddings,
            image_positional_embeddings=places,
            sparse_prompt_embeddings=sparse,
            dense_prompt_embeddings=dense,
            multimask_output=True,
        )
        return scores, masks


def _prompted(g: torch.Generator) -> Inputs:
    return {
        "image_embeddings": torch.randn(1, WIDTH, 8, 8, generator=g),
        "input_points": torch.rand(1, 1, 2, 2, generator=g) * 128,
        "input_labels": torch.tensor([[[1, 0]]]),
    }


class SingleShot(nn.Module):
    """A detector of boxes around anchors, and the best of what it finds: scores, labels, corners.
    Leaving out boxes that overlap is for the page, as how many are left depends on values."""

    LABELS = 7
    BEST = 10

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(3, 16, 3, stride=2, padding=1),
            nn.BatchNorm2d(16),
            nn.ReLU(),
            nn.Conv2d(16, 32, 3, stride=4, padding=1),
            nn.ReLU(),
        )
        self.kinds = nn.Conv2d(32, 2 * self.LABELS, 3, padding=1)
        self.places = nn.Conv2d(32, 2 * 4, 3, padding=1)
        middles = torch.stack(torch.meshgrid(torch.arange(8.0), torch.arange(8.0), indexing="xy"))
        middles = (middles.flatten(1).T + 0.5) / 8
        sizes = torch.tensor([[0.2, 0.2], [0.4, 0.3]])
        anchors = [
            middles[:, None].expand(-1, 2, -1).reshape(-1, 2),
            sizes.repeat(len(middles), 1),
        ]
        self.register_buffer("anchors", torch.cat(anchors, 1))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        found = self.body(x)
        kinds, deltas = (
            head(found).permute(0, 2, 3, 1).reshape(x.shape[0], -1, n)
            for head, n in ((self.kinds, self.LABELS), (self.places, 4))
        )
        scores, labels = kinds.softmax(-1)[..., 1:].max(-1)
        best, which = scores.topk(self.BEST, dim=1)
        middle = self.anchors[:, :2] + 0.1 * deltas[..., :2] * self.anchors[:, 2:]
        size = self.anchors[:, 2:] * torch.exp(0.2 * deltas[..., 2:])
        corners = torch.cat((middle - size / 2, middle + size / 2), -1).clamp(0, 1)
        picked = corners.gather(1, which[..., None].expand(-1, -1, 4))
        return best, labels.gather(1, which).to(torch.float32), picked


def _distilbert() -> nn.Module:
    found = _transformers()
    config = found.DistilBertConfig(
        dim=WIDTH, hidden_dim=4 * WIDTH, n_layers=LAYERS, n_heads=HEADS, **SMALL
    )
    return Picked(found.DistilBertModel(config), IDS, HIDDEN)


PARTS = (
    ExportedNetwork(
        name="distilbert",
        build=_distilbert,
        inputs=_prompt(32, *IDS),
        outputs=HIDDEN,
        axes=_text(*IDS, *HIDDEN),
    ),
    ExportedNetwork(
        name="clip-text",
        build=_clip("Text", "text_embeds", "input_ids"),
        inputs=_words_with_an_end,
        outputs=("text_embeds", *HIDDEN),
        axes={**_text(*IDS, *HIDDEN), "text_embeds": {0: "batch"}},
    ),
    ExportedNetwork(
        name="clip-vision",
        build=_clip("Vision", "image_embeds", "pixel_values"),
        inputs=lambda g: {"pixel_values": torch.randn(1, 3, 64, 64, generator=g)},
        outputs=("image_embeds", *HIDDEN),
        axes={name: {0: "batch"} for name in ("pixel_values", "image_embeds", *HIDDEN)},
    ),
    ExportedNetwork(
        name="sam-decoder",
        build=MaskDecoder,
        inputs=_prompted,
        outputs=("iou_scores", "pred_masks"),
    ),
    ExportedNetwork(
        name="whisper-decoder",
        build=_whisper_decoder,
        inputs=_prompt(12, *WHISPER_PROMPT),
        outputs=HIDDEN,
        axes=_text(*WHISPER_PROMPT, *HIDDEN),
    ),
    ExportedNetwork(
        name="t5-decoder",
        build=_t5_decoder,
        inputs=_prompt(12, *IDS, *CROSSED_STEP[1:]),
        outputs=HIDDEN,
        axes=_text(*IDS, *CROSSED_STEP[1:], *HIDDEN),
    ),
    _step("gpt2-step", _gpt2, GPT2_STEP, "logits"),
    _step("llama-step", _llama, GPT2_STEP, "logits"),
    _step("bart-decoder-step", _bart_decoder, CROSSED_STEP, HIDDEN[0]),
    ExportedNetwork(
        name="single-shot",
        build=SingleShot,
        inputs=lambda g: {"x": torch.randn(1, 3, 64, 64, generator=g)},
        outputs=("scores", "labels", "corners"),
    ),
)
