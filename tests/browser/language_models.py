"""A small language model by a seed as a plan, with the tokens that NumPy generates."""

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from math import prod
from typing import Any

import numpy as np

from fixtures.language_configs import LLAMA
from fixtures.model_site import Files, SiteKernels
from kernelzoo.domain.dtype import DType
from kernelzoo.domain.gpu import gpu_model
from kernelzoo.domain.operators.quantised import Form
from kernelzoo.domain.plan import Plan
from kernelzoo.domain.target import TargetKind
from kernelzoo.domain.workload import ProgramWorkload, Workload
from services.tuner.graph.models import PlannedModel
from services.tuner.language.checkpoint import Checkpoint, Seeded
from services.tuner.language.config import LanguageConfig
from services.tuner.language.planning import plan_decoder
from services.tuner.language.reference import Reference
from services.tuner.schedules.registry import lite_space

Words = Any  # np.uint32, or an array of them.

# Kernels of the head and of the queries have one text, and other numbers of workgroups.
TINY = replace(LLAMA, vocabulary=160, length=40, tied=False, stop=(159,))

BYTES = Seeded(form=Form(width=8, block=16, zeros=True))

BLOCK_ROWS = 16
"""Tokens of a prompt that are taken at once."""

HALVED = replace(TINY, cache=DType.F16)


@cache
def tiny_decoder(name: str = "tiny-llama", config: LanguageConfig = TINY) -> tuple[Plan, Files]:
    made = remembered(plan_decoder(config, Seeded(), name, BLOCK_ROWS, max_error=0.001))
    weights = b"".join(made.weights.blocks())
    return made.plans[0], Files(weights=weights, golden=made.golden[0])


@cache
def decoder_that_grows(name: str, lengths: tuple[int, ...]) -> tuple[tuple[Plan, Files], ...]:
    """A plan for each length, with the files that it names. Its weights have 8 bits."""
    made = remembered(plan_decoder(TINY, BYTES, name, BLOCK_ROWS, lengths))
    weights = b"".join(made.weights.blocks())
    plans = [replace(plan, model=f"{name}-{plan.dimensions['context']}") for plan in made.plans]
    files = [Files(weights=weights, golden=golden) for golden in made.golden]
    return tuple(zip(plans, files, strict=True))


def bytes_taken(plan: Plan) -> int:
    """Counts what a page reserves for a plan."""
    states = sum(state.dtype.size_bytes * prod(state.shape) for state in plan.states)
    return plan.memory.weights + plan.memory.activations + states


def right_tokens(
    prompt: list[int],
    count: int,
    weights: Checkpoint = Seeded(),  # noqa: B008, as it is frozen
    config: LanguageConfig = TINY,
) -> list[int]:
    return Reference(config, weights).continued(prompt, count)


def chosen_on_gpu(key: str) -> SiteKernels:
    space = lite_space(workload_of(key), TargetKind.WEBGPU, gpu_model("google", "swiftshader"))
    return SiteKernels(candidate=space[0], fallback=space[0])


def chosen_on_wasm(key: str) -> SiteKernels:
    """The first that every engine can run."""
    space = lite_space(workload_of(key), TargetKind.WASM)
    portable = next(each for each in space if "relaxed-simd" not in each.requires)
    return SiteKernels(candidate=portable, fallback=portable)


_PROGRAMS: dict[str, ProgramWorkload] = {}
"""Programs of the plans that were made here."""


def remembered(made: PlannedModel) -> PlannedModel:
    programs = (each for each in made.workloads if isinstance(each, ProgramWorkload))
    _PROGRAMS.update((each.key, each) for each in programs)
    return made


def workload_of(key: str) -> Workload:
    """A workload of one of the plans that were made here."""
    return _PROGRAMS.get(key) or Workload.parse(key)


def drawn_tokens(prompt: list[int], count: int, asked: Mapping[str, Any]) -> list[int]:
    """Draws tokens as the page does, with whole sorts in place of searches. `asked` is as in the
    page."""
    temperature, seed = asked["temperature"], np.uint32(asked.get("seed", 0))
    top_k, top_p = asked.get("topK", TINY.vocabulary), asked.get("topP", 1.0)
    reference, found = Reference(TINY, Seeded()), list(prompt)
    for place in range(len(prompt) - 1, len(prompt) - 1 + count):
        logits = adjusted(reference.logits(found).astype(np.float64), prompt, found, asked)
        if temperature == 0:
            found.append(int(logits.argmax()))
            continue
        powers = np.exp((logits - logits.max()) / temperature)
        order = np.argsort(-logits, kind="stable")
        before = np.cumsum(powers[order]) - powers[order]
        few = (before < top_p * powers.sum()) & (np.arange(len(order)) < top_k)
        kept = order[few & (powers[order] >= asked.get("minP", 0.0))]
        key = _hash(np.uint32(place) ^ _hash(seed))
        tokens = kept.astype(np.uint32)
        uniform = ((_hash(key + _hash(tokens + key)) >> np.uint32(8)) + 0.5) / 2**24
        scores = (logits[kept] - logits.max()) / temperature - np.log(-np.log1p(-uniform))
        found.append(int(kept[scores.argmax()]))
    return found[len(prompt) :]


def adjusted(
    logits: np.ndarray[Any, Any], prompt: list[int], found: list[int], asked: Mapping[str, Any]
) -> np.ndarray[Any, Any]:
    """The repetition penalty counts the prompt, the other ones what follows it, and biases are
    added last."""
    penalty = asked.get("repetitionPenalty", 1.0)
    known = np.unique(found)
    kept = logits[known]
    logits[known] = np.where(kept > 0, kept / penalty, kept * penalty)
    counts = np.bincount(found[len(prompt) :], minlength=len(logits))
    logits -= asked.get("frequencyPenalty", 0.0) * counts
    logits -= asked.get("presencePenalty", 0.0) * (counts > 0)
    for token, bias in asked.get("logitBias", {}).items():
        logits[int(token)] += bias
    return logits


@np.errstate(over="ignore")
def _hash(value: Words) -> Words:
    """PCG's output function."""
    state = value * np.uint32(747_796_405) + np.uint32(2_891_336_453)
    word = ((state >> ((state >> np.uint32(28)) + np.uint32(4))) ^ state) * np.uint32(277_803_737)
    return (word >> np.uint32(22)) ^ word


def tiny_tokenizer() -> dict[str, object]:
    """A `tokenizer.json` for TINY: bytes, of which those above 127 make no character alone, and the
    token that ends a text."""
    shown = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in shown]
    letters = {byte: chr(byte) for byte in shown}
    letters |= {byte: chr(256 + place) for place, byte in enumerate(others)}
    kept = [10, *range(32, 127), *range(128, 128 + TINY.vocabulary - 97)]
    tokens = {letters[byte]: place for place, byte in enumerate(kept)}
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    end = {"id": TINY.stop[0], "content": "<|end|>", "special": True, **flags}
    return {
        "version": "1.0",
        "added_tokens": [end],
        "normalizer": None,
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False},
        "post_processor": None,
        "decoder": {"type": "ByteLevel"},
        "model": {"type": "BPE", "vocab": tokens, "merges": [], "unk_token": None},
    }


TEMPLATE = "{% for message in messages %}{{ message.content + '\n' }}{% endfor %}"
