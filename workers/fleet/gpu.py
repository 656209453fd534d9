"""Tells which adapter a browser gives to WebGPU: that of a GPU, or a software one."""

import sys
from enum import StrEnum
from pathlib import Path


class GpuChoice(StrEnum):
    """`AUTO` is the hardware where this machine has any, else the software."""

    AUTO = "auto"
    HARDWARE = "hardware"
    SOFTWARE = "software"


# Chromium 156 on Linux. Without unsafe-webgpu it offers no adapter at all; without Vulkan neither
# an NVIDIA GPU nor SwiftShader. A headless machine has no surface to show, and its driver may be on
# the blocklist.
_UNLOCKED = ("--enable-unsafe-webgpu", "--enable-features=Vulkan")
_FLAGS = {
    GpuChoice.HARDWARE: (
        *_UNLOCKED,
        *("--ignore-gpu-blocklist", "--use-angle=vulkan", "--disable-vulkan-surface"),
    ),
    GpuChoice.SOFTWARE: (*_UNLOCKED, "--use-webgpu-adapter=swiftshader"),
}


def gpu_flags(
    gpu: GpuChoice, devices: Path = Path("/dev"), platform: str = sys.platform
) -> list[str]:
    """Elsewhere than on Linux browsers find the hardware by themselves."""
    if gpu is GpuChoice.AUTO:
        gpu = GpuChoice.HARDWARE if platform != "linux" or _has_gpu(devices) else GpuChoice.SOFTWARE
    if gpu is GpuChoice.HARDWARE and platform != "linux":
        return []
    return list(_FLAGS[gpu])


def _has_gpu(devices: Path) -> bool:
    """A node to render on, or one of NVIDIA's own, which containers have alone."""
    return any(devices.glob("dri/renderD*")) or any(devices.glob("nvidia[0-9]*"))
