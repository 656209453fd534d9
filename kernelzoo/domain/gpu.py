"""Says what one core of a GPU has, by vendor and architecture: nnJIT's hardware totals (Table 1).

A space of WebGPU candidates belongs to one of these models, since a browser tells vendor and
architecture of its adapter and nothing more. `core` is a streaming multiprocessor, a compute unit
or an Xe core; `warp` a wavefront or a SIMD group.
"""

from dataclasses import dataclass

from kernelzoo.domain.device import Hardware
from kernelzoo.domain.target import TargetKind
from kernelzoo.errors import InvalidInput


@dataclass(frozen=True, slots=True, kw_only=True)
class Driver:
    """The compiler of a driver is done with so much in two seconds: `statements` of a kernel with
    its loops unrolled, and `workgroup_bytes` that it keeps in workgroup memory."""

    statements: int
    workgroup_bytes: int


HARDWARE_DRIVER = Driver(statements=4096, workgroup_bytes=65_536)
"""More than any kernel of a space has: NVIDIA's takes 20 to 100 ms for 1,300 statements (H200)."""

SOFTWARE_DRIVER = Driver(statements=768, workgroup_bytes=6_144)
"""SwiftShader of Chromium 156, on two cores that others kept busy: 492 statements took 0.6 to
1.8 s; 1,024 words of workgroup memory 0.4 to 1 s, 1,536 words 1 to 1.3 s, and 7,168 words 4 to
5 s and 850 MB, as it writes the zeros that WebGPU promises by an instruction for each word."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuModel:
    """`cores` is that of a common device of the architecture; counts are of one core.

    `registers` are of 32 bits; `thread_registers` are the most that one thread can have.
    """

    name: str
    cores: int
    warps: int
    warp_lanes: int
    registers: int
    shared_bytes: int
    thread_registers: int = 64
    driver: Driver = HARDWARE_DRIVER


def _model(
    name: str,
    *,
    cores: int,
    warps: int,
    lanes: int,
    registers: int,
    shared_kib: int,
    thread_registers: int = 64,
    driver: Driver = HARDWARE_DRIVER,
) -> GpuModel:
    return GpuModel(
        name=name,
        cores=cores,
        warps=warps,
        warp_lanes=lanes,
        registers=registers,
        shared_bytes=shared_kib << 10,
        thread_registers=thread_registers,
        driver=driver,
    )


ANY_GPU = _model("any", cores=16, warps=32, lanes=32, registers=32_768, shared_kib=32)
"""Every GPU has as much as this. It may be no GPU at all, so that the first kernel of its spaces is
one that a software driver compiles."""


def _nvidia(name: str, *, cores: int, warps: int, shared_kib: int) -> GpuModel:
    return _model(
        name,
        cores=cores,
        warps=warps,
        lanes=32,
        registers=65_536,
        shared_kib=shared_kib,
        thread_registers=255,
    )


_NVIDIA = {
    # CUDA C++ programming guide, section "Compute Capabilities"; cores of a GTX 980, GTX 1080,
    # RTX 2080, RTX 3080, RTX 4080, RTX 5080 and H200.
    "maxwell": _nvidia("nvidia-maxwell", cores=16, warps=64, shared_kib=96),
    "pascal": _nvidia("nvidia-pascal", cores=20, warps=64, shared_kib=96),
    "turing": _nvidia("nvidia-turing", cores=46, warps=32, shared_kib=64),
    "ampere": _nvidia("nvidia-ampere", cores=68, warps=48, shared_kib=100),
    "lovelace": _nvidia("nvidia-lovelace", cores=76, warps=48, shared_kib=100),
    "blackwell": _nvidia("nvidia-blackwell", cores=84, warps=48, shared_kib=100),
    "hopper": _nvidia("nvidia-hopper", cores=132, warps=64, shared_kib=227),
    # Chromium 156 tells no architecture of an H200, as of what its table of devices does not have.
    "": _nvidia("nvidia", cores=132, warps=64, shared_kib=100),
}


def _amd(name: str, *, cores: int, warps: int, lanes: int, registers: int = 65_536) -> GpuModel:
    return _model(
        name,
        cores=cores,
        warps=warps,
        lanes=lanes,
        registers=registers,
        shared_kib=64,
        thread_registers=255,
    )


_AMD = {
    # AMD's "RDNA architecture" and "Vega ISA" papers: four SIMDs of 64 KiB registers and 10 waves
    # in a compute unit of GCN; two of 128 KiB (RDNA 3: 192 KiB) and 16 waves in one of RDNA.
    "gcn-5": _amd("amd-gcn", cores=36, warps=40, lanes=64),
    "rdna-1": _amd("amd-rdna-1", cores=36, warps=40, lanes=32),
    "rdna-2": _amd("amd-rdna-2", cores=40, warps=32, lanes=32),
    "rdna-3": _amd("amd-rdna-3", cores=60, warps=32, lanes=32, registers=98_304),
    "": _amd("amd", cores=32, warps=32, lanes=32),
}
_INTEL = {
    # Intel's oneAPI GPU optimization guide: 8 EUs of 7 threads in a subslice of gen 9, 16 in one of
    # gen 12, 16 engines of 8 threads in an Xe core; 4 KiB of registers for each thread.
    "gen-9": _model("intel-gen-9", cores=3, warps=56, lanes=16, registers=57_344, shared_kib=64),
    "gen-12lp": _model(
        "intel-gen-12", cores=6, warps=112, lanes=16, registers=114_688, shared_kib=64
    ),
    "xe-lpg": _model("intel-xe", cores=8, warps=128, lanes=16, registers=131_072, shared_kib=128),
    "": _model("intel", cores=6, warps=112, lanes=16, registers=114_688, shared_kib=64),
}
_OTHERS = {
    # 208 KiB of registers, 96 SIMD groups and 60 KiB of threadgroup memory in a core, as measured
    # by the project metal-benchmarks; cores of an M2.
    ("apple", ""): _model(
        "apple",
        cores=10,
        warps=96,
        lanes=32,
        registers=53_248,
        shared_kib=60,
        thread_registers=128,
    ),
    # Qualcomm publishes no totals: half of what can be counted on elsewhere, waves of 64.
    ("qualcomm", ""): _model(
        "qualcomm", cores=4, warps=16, lanes=64, registers=16_384, shared_kib=32
    ),
    # Arm's GPU best practices guide: 1,024 threads with 32 registers each in a core of Valhall,
    # warps of 16; workgroup memory is ordinary memory.
    ("arm", ""): _model("arm", cores=10, warps=64, lanes=16, registers=32_768, shared_kib=32),
    # A processor: vectors of four lanes, one workgroup at a time on each of its cores.
    ("google", "swiftshader"): _model(
        "swiftshader",
        cores=2,
        warps=1,
        lanes=4,
        registers=128,
        shared_kib=32,
        driver=SOFTWARE_DRIVER,
    ),
}
_MODELS = (
    {("nvidia", architecture): model for architecture, model in _NVIDIA.items()}
    | {("amd", architecture): model for architecture, model in _AMD.items()}
    | {("intel", architecture): model for architecture, model in _INTEL.items()}
    | _OTHERS
)


def gpu_model(vendor: str, architecture: str) -> GpuModel:
    """Looks vendor and architecture up as `GPUAdapterInfo` tells them. An architecture that the
    table lacks is taken for its vendor's common device, and an unknown vendor for `ANY_GPU`."""
    known = _MODELS.get((vendor, architecture)) or _MODELS.get((vendor, ""))
    return known or ANY_GPU


GPU_MODELS = {model.name: model for model in (ANY_GPU, *_MODELS.values())}


def first_space(target: TargetKind) -> str:
    """The space of a job that is opened without a device in view; only a GPU has several."""
    return ANY_GPU.name if target is TargetKind.WEBGPU else ""


def space_of(target: TargetKind, hardware: Hardware | None) -> str:
    """The space in which a device is measured; a stranger's GPU is any."""
    if target is not TargetKind.WEBGPU or hardware is None:
        return first_space(target)
    return gpu_model(hardware.gpu_vendor, hardware.gpu_architecture).name


def model_of_space(space: str) -> GpuModel:
    """Raises InvalidInput for a name that is no model. A space of wasm depends on none."""
    model = GPU_MODELS.get(space or ANY_GPU.name)
    if model is None:
        raise InvalidInput(f"GPU model {space[:40]!r} is unknown; use {', '.join(GPU_MODELS)}")
    return model
