"""Seeded inputs, identical in Python and in the browser, computable entry by entry.

Element `i` of input tensor `t` under `seed` is `mix(seed + t·GOLDEN + i·STEP)`, 24 bits of it
scaled to [-0.5, 0.5): exact in float32. `mix` is the 32-bit finaliser of MurmurHash3. The client
implements the same in `client/src/engine/seeded.ts`; both are held to `tests/golden/seeded.json`.
"""

from math import sqrt

from kernelzoo.domain.workload import Workload

GOLDEN = 0x9E3779B9
STEP = 0x85EBCA77
SAMPLE_SALT = 0x27D4EB2F
SAMPLED_ENTRIES = 64
_MASK = 0xFFFFFFFF


def mix(x: int) -> int:
    """Finaliser of MurmurHash3 (fmix32): a bijection of 32-bit integers."""
    x &= _MASK
    x ^= x >> 16
    x = x * 0x85EBCA6B & _MASK
    x ^= x >> 13
    x = x * 0xC2B2AE35 & _MASK
    return x ^ x >> 16


def input_value(seed: int, tensor: int, index: int) -> float:
    return (mix(seed + tensor * GOLDEN + index * STEP) >> 8) * 2.0**-24 - 0.5


def sampled_positions(seed: int, output_elements: int) -> tuple[int, ...]:
    """Flat output positions whose values an agent reports. They may repeat in tiny outputs."""
    return tuple(
        mix(seed + SAMPLE_SALT + i * STEP) % output_elements for i in range(SAMPLED_ENTRIES)
    )


def comparison_tolerance(workload: Workload) -> float:
    """Largest absolute difference between two right float32 results under seeded inputs.

    A sum of `n` products in any order errs by at most n·u·Σ|a·b| with u = 2^-24 (Higham,
    Accuracy and Stability, section 3.1); Σ|a·b| of seeded inputs is n/16 with deviation below
    √n/8. Two results may err in opposite directions.
    """
    n = workload.reduction_length
    magnitude = n / 16 + 6 * sqrt(n) / 8
    return 2 * (n + 1) * 2.0**-24 * magnitude
