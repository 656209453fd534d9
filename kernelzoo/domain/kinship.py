"""Says which devices are alike: the families in which a device without an entry looks for one."""

from collections.abc import Mapping

from kernelzoo.domain.device import Hardware
from kernelzoo.domain.target import TargetKind
from kernelzoo.domain.zoo import HitLevel

Families = Mapping[HitLevel, str]
"""By the step of the chain that looks there, the narrowest first; a step without a family is left
out."""


def families(hardware: Hardware | None, target: TargetKind) -> Families:
    """The families of a GPU for webgpu, else of a processor. Text that the browser did not tell is
    no kin.

    A processor has no vendor: no browser tells who made it.
    """
    known = {HitLevel.COMMON: ""}
    if hardware is None:
        return known
    architecture, vendor = hardware.cpu_architecture, ""
    if target is TargetKind.WEBGPU:
        vendor = hardware.gpu_vendor
        architecture = f"{vendor} {hardware.gpu_architecture}"
        if not vendor or not hardware.gpu_architecture:
            architecture = ""
    told = {HitLevel.ARCHITECTURE: architecture, HitLevel.VENDOR: vendor}
    return {level: family for level, family in told.items() if family} | known


STRANGER = "0" * 16
"""The device id that stands for all devices that the zoo has never seen."""
