"""What one core of a GPU has, by vendor and architecture: nnJIT's hardware totals (Table 1).

A space of WebGPU candidates belongs to one of these models, since a browser tells vendor and
architecture of its adapter and nothing more. `core` is a streaming multiprocessor, a compute unit
or an Xe core; `warp` a wavefront or a SIMD group.
"""

from dataclasses import dataclass

from kernelzoo.domain.target import TargetKind
from kernelzoo.errors import InvalidInput


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuModel:
    """`cores` is that of a common device of the architecture; counts are of one core.

    `registers` are of 32 bits.
    """

    name: str
    cores: int
    warps: int
    warp_lanes: int
    registers: int
    shared_bytes: int


ANY_GPU = GpuModel(
    name="any", cores=16, warps=32, warp_lanes=32, registers=32_768, shared_bytes=32_768
)
"""What can be counted on where nothing is known."""

_NVIDIA = {"warp_lanes": 32, "registers": 65_536}
_MODELS = {
    ("nvidia", "hopper"): GpuModel(
        name="nvidia-hopper", cores=132, warps=64, shared_bytes=232_448, **_NVIDIA
    ),
    ("google", "swiftshader"): GpuModel(
        name="swiftshader", cores=2, warps=1, warp_lanes=4, registers=128, shared_bytes=32_768
    ),
}


def gpu_model(vendor: str, architecture: str) -> GpuModel:
    """As `GPUAdapterInfo` tells them; `ANY_GPU` for what the table does not have."""
    return _MODELS.get((vendor, architecture), ANY_GPU)


GPU_MODELS = {model.name: model for model in (ANY_GPU, *_MODELS.values())}


def first_space(kind: TargetKind) -> str:
    """The space of a job that is opened without a device in view; of wasm there is one."""
    return {TargetKind.WASM: "", TargetKind.WEBGPU: ANY_GPU.name}[kind]


def model_of_space(space: str) -> GpuModel:
    """Raises InvalidInput for a name that is no model. A space of wasm depends on none."""
    model = GPU_MODELS.get(space or ANY_GPU.name)
    if model is None:
        raise InvalidInput(f"GPU model {space[:40]!r} is unknown; use {', '.join(GPU_MODELS)}")
    return model
