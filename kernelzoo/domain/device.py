"""Describes a device as its browser tells it, and the class of devices that share kernels."""

import json
import re
from collections.abc import Callable
from dataclasses import asdict, dataclass
from hashlib import sha256
from typing import Self

from kernelzoo.domain.target import Target
from kernelzoo.errors import InvalidInput

_ID = re.compile(r"[0-9a-f]{16}")
_MAJOR = re.compile(r"[0-9]{1,6}")
RHO = r"r(0|[1-9][0-9]{0,3})-([01]{1,64})"
"""A primitive vector as text: its suite, and its bits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hardware:
    """The part of a profile that does not change with the browser. Unknown text is ''."""

    cpu_architecture: str
    logical_cores: int
    gpu_vendor: str
    gpu_architecture: str

    @property
    def device_id(self) -> str:
        """16 hex digits: a stable hash of these fields alone."""
        text = json.dumps(asdict(self), sort_keys=True, separators=(",", ":"))
        return sha256(text.encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """Browser engine and version: recorded beside a measurement, never in the device id."""

    name: str
    version: str

    @property
    def major(self) -> int:
        """0 where the version does not begin with a number."""
        match = _MAJOR.match(self.version)
        return int(match[0]) if match else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PrimitiveVector:
    """ρ of nnJIT section 5.3. Bit i is '1' where primitive i's advanced setting is faster.

    `suite` is the version of the microbenchmark suite, so that bits keep their meaning.
    """

    suite: int
    bits: str

    @classmethod
    def parse(cls, text: str) -> Self:
        """Raises InvalidInput for text that is no primitive vector."""
        match = re.fullmatch(RHO, text)
        if match is None:
            raise InvalidInput(
                f"primitive vector {text[:80]!r} is malformed; write r<suite>-<bits>, as in r1-01"
            )
        return cls(suite=int(match[1]), bits=match[2])

    def __str__(self) -> str:
        return f"r{self.suite}-{self.bits}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeLevels:
    """The page measured these of one core beside ρ, each to the nearest power of two; 0 is unknown.

    Rates of caches count whole lines, one load from each. Recorded, never in the device class.
    """

    mul_add_gflops: int
    fma_gflops: int
    l1_kib: int
    l1_gbps: int
    l2_gbps: int
    memory_gbps: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuProbeLevels:
    """The page measured these of the whole GPU, as `ProbeLevels` of one core.

    `peak_gflops` is of f32 in registers, `bandwidth_gbps` of storage buffers that are in no cache,
    `dispatch_us` the time of an empty dispatch among many of one submission.
    """

    peak_gflops: int
    bandwidth_gbps: int
    dispatch_us: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceClass:
    """Devices that share kernels. Text form: `<device id>:<ρ>:<target>`."""

    device_id: str
    rho: PrimitiveVector
    target: Target

    @classmethod
    def parse(cls, text: str) -> Self:
        """Raises InvalidInput for text that is no device class, or names an unknown feature."""
        return cls._read(text, Target.parse)

    @classmethod
    def stored(cls, text: str) -> Self:
        """Reads a class that some version of this program wrote. While a version comes that knows
        more features, or goes again, those that this one does not know are names like others.
        Raises InvalidInput for text that is no device class.
        """
        return cls._read(text, Target.stored)

    @classmethod
    def _read(cls, text: str, read_target: Callable[[str], Target]) -> Self:
        parts = text.split(":")
        if len(parts) != 3 or not _ID.fullmatch(parts[0]):
            raise InvalidInput(
                f"device class {text[:120]!r} is malformed; write <device id>:<rho>:<target>, "
                "as in 0123456789abcdef:r1-0:wasm+simd128"
            )
        return cls(
            device_id=parts[0],
            rho=PrimitiveVector.parse(parts[1]),
            target=read_target(parts[2]),
        )

    def __str__(self) -> str:
        return f"{self.device_id}:{self.rho}:{self.target}"
