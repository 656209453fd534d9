"""Seeded inputs, identical in Python and in the browser, computable entry by entry.

Element `i` of input tensor `t` under `seed` is made from `mix(seed + t·GOLDEN + i·STEP)`: for f32,
24 bits scaled to [-0.5, 0.5), which is exact; for i8, its highest byte from -128 on; for an index,
its remainder below the limit. `mix` is the 32-bit finaliser of MurmurHash3. The client implements
the same in `client/src/engine/seeded.ts`; both are held to `tests/golden/seeded.json`.
"""

from math import sqrt

from kernelzoo.domain.operators import Family
from kernelzoo.domain.workload import DType, Workload

GOLDEN = 0x9E3779B9
STEP = 0x85EBCA77
SAMPLE_SALT = 0x27D4EB2F
SAMPLED_ENTRIES = 64
UNIT = 2.0**-24
"""Largest relative error of one rounding to float32."""
FUNCTION_ROUNDINGS = 16
"""More than any function of the compiler, or the arithmetic around it, takes."""
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
        case DType.I8:
            return (bits >> 24) - 128
        case DType.I32:
            return bits % limit


def sampled_positions(seed: int, output_elements: int) -> tuple[int, ...]:
    """Flat output positions whose values an agent reports. They may repeat in tiny outputs."""
    return tuple(
        mix(seed + SAMPLE_SALT + i * STEP) % output_elements for i in range(SAMPLED_ENTRIES)
    )


def comparison_tolerance(workload: Workload) -> float:
    """Largest absolute difference between two right float32 results under seeded inputs."""
    match workload.operator.family:
        case Family.CONTRACTION | Family.CONVOLUTION:
            return _of_sums(workload)
        case Family.ROWS:
            return _of_rows(workload)
        case Family.MAP:
            return 2 * FUNCTION_ROUNDINGS * UNIT


def _of_sums(workload: Workload) -> float:
    """A sum of `n` products in any order errs by at most n·u·Σ|a·b| with u = 2^-24 (Higham,
    Accuracy and Stability, section 3.1); Σ|a·b| of seeded inputs is n/16 with deviation below
    √n/8. Two results may err in opposite directions. Sums of inputs themselves are at most n/2.

    No part of an epilogue has a slope above 1.13; each rounds a few times more.
    """
    n = workload.reduction_length
    products = len(workload.operator.inputs) > 1
    magnitude = n / 16 + 6 * sqrt(n) / 8 if products else n / 2
    largest = 0.25 * n
    if any(tensor.dtype is DType.I8 for tensor in workload.tensors):
        magnitude, largest = I8_SCALE * magnitude, I8_SCALE * largest
    sums = 2 * (n + 1) * UNIT * magnitude
    if not workload.epilogue:
        return sums
    largest += len(workload.epilogue)
    return 1.13 * sums + 2 * FUNCTION_ROUNDINGS * UNIT * min(largest, magnitude + 4)


def _of_rows(workload: Workload) -> float:
    """Sums of n terms as above, over values of at most 1/2; a norm divides by the deviation.

    The deviation of seeded inputs is near 0.29 from 16 columns on; the variance floor of 1e-5
    bounds what fewer columns may magnify. A probability is at most e/n and at most 1.
    """
    n = workload.extent["n"]
    roundings = (n + FUNCTION_ROUNDINGS) * UNIT
    match workload.operator.name:
        case "softmax":
            return 2 * roundings * min(1, 3 / n)
        case "layer_norm" | "rms_norm":
            return 2 * roundings * (12 if n >= FEW_COLUMNS else 320)
    return 2 * roundings * (n / 2 if workload.operator.name == "row_sum" else 1)
