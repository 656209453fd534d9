"""Seeded inputs, identical in Python and in the browser, computable entry by entry.

Element `i` of input tensor `t` under `seed` is made from `mix(seed + t·GOLDEN + i·STEP)`: for f32,
24 bits scaled to [-0.5, 0.5), which is exact; for f16, that rounded to the nearest; for i8, its
highest byte from -128 on; for an index, its remainder below the limit. `mix` is the 32-bit
finaliser of MurmurHash3. The client implements
the same in `client/src/engine/verification.ts`; both are held to `tests/golden/seeded.json`.
"""

from math import sqrt
from struct import pack, unpack

from kernelzoo.domain.dtype import DType
from kernelzoo.domain.operators import Family
from kernelzoo.domain.target import TargetKind
from kernelzoo.domain.workload import Workload

GOLDEN = 0x9E3779B9
STEP = 0x85EBCA77
SAMPLE_SALT = 0x27D4EB2F
SAMPLED_ENTRIES = 64
UNIT = {TargetKind.WASM: 2.0**-24, TargetKind.WEBGPU: 2.0**-23}
"""Largest relative error of one rounding to float32. WebAssembly rounds to nearest; WGSL lets sums
and products be rounded up or down (section 15.7.4), reassociated and fused (15.7.5)."""
HALF_UNIT, HALF_STEP = 2.0**-10, 2.0**-24
"""The same of a result that is stored as f16, which WGSL rounds in either direction (15.7.6), and
the step of the smallest f16."""
FUNCTION_ROUNDINGS = 16
"""More units than any function of the compiler, or the arithmetic around it, takes. In WebAssembly
all are polynomials, within 3 ulp. In WGSL exp is the device's, within 3 + 2·|x| ulp: 5 in softmax,
whose exponents are in [-1, 0] under seeded inputs; below 6 in all that use it where |x| may be
large, since e^-|x| falls faster than the error grows. A division takes 2.5 and inverseSqrt 2."""
FEW_COLUMNS = 16
I8_SCALE = 256
"""Seeded i8 are that many times as large as seeded f32."""
_MASK = 0xFFFFFFFF


def mix(x: int) -> int:
    """Finaliser of MurmurHash3 (fmix32): a bijection of 32-bit integers."""
    x &= _MASK
    x ^= x >> 16
    x = x * 0x85EBCA6B & _MASK
    x ^= x >> 13
    x = x * 0xC2B2AE35 & _MASK
    return x ^ x >> 16


def input_value(
    seed: int, tensor: int, index: int, dtype: DType = DType.F32, limit: int = 0
) -> float:
    """`limit` is that of an index."""
    bits = mix(seed + tensor * GOLDEN + index * STEP)
    match dtype:
        case DType.F32:
            return (bits >> 8) * 2.0**-24 - 0.5
        case DType.F16:
            (value,) = unpack("<e", pack("<e", (bits >> 8) * 2.0**-24 - 0.5))
            return float(value)
        case DType.I8:
            return (bits >> 24) - 128
        case DType.I32 | DType.I64:
            return bits % limit


def sampled_positions(seed: int, output_elements: int) -> tuple[int, ...]:
    """Flat output positions whose values an agent reports. They may repeat in tiny outputs."""
    return tuple(
        mix(seed + SAMPLE_SALT + i * STEP) % output_elements for i in range(SAMPLED_ENTRIES)
    )


def comparison_tolerance(workload: Workload, kind: TargetKind = TargetKind.WASM) -> float:
    """Largest absolute difference between two right results under seeded inputs.

    Of f16 are inputs, which are exact, and the entry that is stored, which is rounded once.
    """
    tolerance = _of_computing(workload, UNIT[kind])
    if workload.dtype is not DType.F16:
        return tolerance
    return tolerance + 2 * (HALF_UNIT * _largest(workload) + HALF_STEP)


def _of_computing(workload: Workload, unit: float) -> float:
    """In float32."""
    match workload.operator.family:
        case Family.CONTRACTION | Family.CONVOLUTION:
            return _of_sums(workload, unit)
        case Family.ROWS:
            return _of_rows(workload, unit)
        case Family.MAP:
            return 2 * FUNCTION_ROUNDINGS * unit


def _of_sums(workload: Workload, unit: float) -> float:
    """A sum of `n` products in any order errs by at most n·u·Σ|a·b| with u = `unit` (Higham,
    Accuracy and Stability, section 3.1), fused or not; Σ|a·b| of seeded inputs is n/16 with
    deviation below √n/8. Two results may err in opposite directions. Sums of inputs themselves are
    at most n/2.

    No part of an epilogue has a slope above 1.13; each rounds a few times more.
    """
    n = workload.reduction_length
    products = len(workload.operator.inputs) > 1
    magnitude = n / 16 + 6 * sqrt(n) / 8 if products else n / 2
    largest = 0.25 * n
    if any(tensor.dtype is DType.I8 for tensor in workload.tensors):
        magnitude, largest = I8_SCALE * magnitude, I8_SCALE * largest
    sums = 2 * (n + 1) * unit * magnitude
    if not workload.epilogue:
        return sums
    largest += len(workload.epilogue)
    return 1.13 * sums + 2 * FUNCTION_ROUNDINGS * unit * min(largest, magnitude + 4)


def _of_rows(workload: Workload, unit: float) -> float:
    """Sums of n terms as above, over values of at most 1/2; a norm divides by the deviation.

    The deviation of seeded inputs is near 0.29 from 16 columns on; the variance floor of 1e-5
    bounds what fewer columns may magnify. A probability is at most e/n and at most 1.
    """
    n = workload.extent["n"]
    roundings = (n + FUNCTION_ROUNDINGS) * unit
    match workload.operator.name:
        case "softmax":
            return 2 * roundings * min(1, 3 / n)
        case "layer_norm" | "rms_norm":
            return 2 * roundings * (12 if n >= FEW_COLUMNS else 320)
    return 2 * roundings * (n / 2 if workload.operator.name == "row_sum" else 1)


def _largest(workload: Workload) -> float:
    """No entry is larger under seeded inputs; a sum of products is six deviations, √n/12 each."""
    n = workload.reduction_length
    match workload.operator.family:
        case Family.CONTRACTION | Family.CONVOLUTION if len(workload.operator.inputs) > 1:
            scale = I8_SCALE if any(t.dtype is DType.I8 for t in workload.tensors) else 1
            return scale * min(n / 4, sqrt(n) / 2) + len(workload.epilogue)
        case Family.ROWS:
            return _largest_of_rows(workload.operator.name, workload.extent["n"])
    return 2.0


def _largest_of_rows(name: str, n: int) -> float:
    """An entry is at most two deviations from its mean, or √n where a row has few columns."""
    match name:
        case "softmax":
            return min(1, 3 / n)
        case "row_sum":
            return min(n / 2, 2 * sqrt(n))
    return 3.0
