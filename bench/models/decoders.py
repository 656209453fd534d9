"""The language models whose decoding is timed, with weights by a seed."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from fixtures.language_configs import LLAMA
from services.tuner.language.checkpoint import Seeded
from services.tuner.language.config import LanguageConfig

WEIGHTS = Seeded()

_SMOLLM = LanguageConfig(
    vocabulary=49_152,
    width=576,
    layers=30,
    heads=9,
    kv_heads=3,
    head_dim=64,
    hidden=1_536,
    length=1_024,
    epsilon=1e-5,
    theta=10_000.0,
    tied=True,
)
_QWEN2 = LanguageConfig(
    vocabulary=151_936,
    width=896,
    layers=24,
    heads=14,
    kv_heads=2,
    head_dim=64,
    hidden=4_864,
    length=1_024,
    epsilon=1e-6,
    theta=1_000_000.0,
    bias=True,
    tied=True,
)
_LLAMA = LanguageConfig(
    vocabulary=128_256,
    width=2_048,
    layers=16,
    heads=32,
    kv_heads=8,
    head_dim=64,
    hidden=8_192,
    length=1_024,
    epsilon=1e-5,
    theta=500_000.0,
    tied=True,
)
_TINY = replace(LLAMA, vocabulary=160, layers=1, length=64, bias=True, tied=False)
TINY = "tiny"


@dataclass(frozen=True, slots=True, kw_only=True)
class DecoderCase:
    """`contexts`: tokens before those that are timed. `tokens`: how many are generated."""

    config: LanguageConfig
    contexts: tuple[int, ...] = (128, 512)
    tokens: int = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """Our decoder goes without this, as in `page/src/decode/request.ts`. `reuse`: all, with no
    uniforms; uniforms that are kept; or nothing of bind groups and uniforms. `flights`: fetches
    under way while the next tokens are submitted; `interval`: tokens a fetch; `submission`: of a
    call, a token or a fetch at once."""

    name: str
    reuse: str = "all"
    flights: int = 2
    interval: int = 16
    submission: str = "token"


FEW_VARIANTS = (
    Variant(name="neither", reuse="nothing", flights=0, interval=1),
    Variant(name="a submission a call", submission="call", interval=4),
    Variant(name="a submission a fetch", submission="fetch", interval=4),
)
VARIANTS = (
    FEW_VARIANTS[0],
    Variant(name="reuse", flights=0, interval=1),
    Variant(name="overlapped fetches", reuse="nothing", interval=1),
    *(Variant(name="reuse, overlapped", interval=count) for count in (1, 2, 4, 16, 32)),
    Variant(name="overlapped fetches", reuse="nothing"),
    Variant(name="uniforms, overlapped", reuse="uniforms"),
    Variant(name="reuse", flights=0),
    Variant(name="a submission a call", submission="call"),
    Variant(name="a submission a fetch", submission="fetch"),
)
"""The first four are WeInfer's Table 5, those with both its Table 6."""

CASES: Mapping[str, DecoderCase] = {
    "smollm-135m": DecoderCase(config=_SMOLLM),
    "qwen2-0.5b": DecoderCase(config=_QWEN2),
    "llama-3.2-1b": DecoderCase(config=_LLAMA),
    TINY: DecoderCase(config=_TINY, contexts=(4,), tokens=4),
}
