"""A small language model by a seed as a plan, with the tokens that NumPy generates."""

from functools import cache

from fixtures.model_site import Files, SiteKernels
from kernelzoo.domain.gpu import gpu_model
from kernelzoo.domain.known_programs import KnownProgram, learn
from kernelzoo.domain.plan import Plan
from kernelzoo.domain.target import TargetKind
from kernelzoo.domain.workload import ProgramWorkload, Workload
from services.tuner.language.checkpoint import Seeded
from services.tuner.language.config import LanguageConfig
from services.tuner.language.planning import plan_decoder
from services.tuner.language.reference import Reference
from services.tuner.schedules.registry import lite_space

# Kernels of the head and of the queries have one text, and other numbers of workgroups.
TINY = LanguageConfig(
    vocabulary=160,
    width=64,
    layers=2,
    heads=4,
    kv_heads=2,
    head_dim=16,
    hidden=96,
    length=40,
    epsilon=1e-6,
    theta=10_000.0,
    stop=(159,),
)

BLOCK_ROWS = 16
"""Tokens of a prompt that are taken at once."""

ROUNDINGS = 100.0
"""Kernels of a model are not compared one by one here."""


@cache
def tiny_decoder(name: str = "tiny-llama") -> tuple[Plan, Files]:
    made = plan_decoder(TINY, Seeded(), name, BLOCK_ROWS)
    weights = b"".join(made.weights.blocks())
    return made.plans[0], Files(weights=weights, golden=made.golden[0])


def right_tokens(prompt: list[int], count: int) -> list[int]:
    return Reference(TINY, Seeded()).continued(prompt, count)


def chosen_on_gpu(key: str) -> SiteKernels:
    workload = Workload.parse(key)
    if isinstance(workload, ProgramWorkload):
        learn(key, KnownProgram(program=workload.program, roundings=ROUNDINGS))
    space = lite_space(workload, TargetKind.WEBGPU, gpu_model("google", "swiftshader"))
    return SiteKernels(candidate=space[0], fallback=space[0])
