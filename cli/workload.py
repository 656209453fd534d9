"""Workloads as people write them: `matmul 384x768x768`, or the canonical key."""

import re

from kernelzoo.domain.operators import OPERATORS
from kernelzoo.domain.workload import MAX_EXTENT, Workload
from kernelzoo.errors import InvalidInput

_INTEGER = re.compile(r"[+-]?[0-9]{1,18}")


def parse_workload(operator_or_key: str, shape: str | None) -> Workload:
    """Raises InvalidInput with the allowed range for a shape that cannot be tuned."""
    if shape is not None:
        return Workload.of(operator_or_key, _extents(shape))
    if ":" in operator_or_key:
        return Workload.parse(operator_or_key)
    raise InvalidInput(
        f"{operator_or_key!r} lacks a shape; write `matmul 384x768x768` "
        f"or the key `matmul:f32:m384k768n768`; operators are {', '.join(OPERATORS)}"
    )


def _extents(shape: str) -> tuple[int, ...]:
    parts = shape.lower().split("x")
    wrong = next((part for part in parts if not _INTEGER.fullmatch(part)), None)
    if wrong is not None:
        raise InvalidInput(
            f"extent {wrong[:40]!r} in shape {shape[:80]!r} is not a whole number; "
            f"write extents from 1 to {MAX_EXTENT} with x between them, as in 384x768x768"
        )
    return tuple(int(part) for part in parts)
