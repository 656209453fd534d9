"""Checks that a model computes its golden outputs with the kernels that a class is served."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from cli.models.machine import NUMPY, Array, Machine
from kernelzoo.domain.plan import GoldenPart, Plan, PlanCall
from services.gateway.wire.artifacts import Kernel
from services.gateway.wire.zoo import ServedKernel

DEFAULT, SERVED = 0, 1
"""A workload has two kernels: the fallback, which is the default, and the one that is served."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallDifference:
    """Tells how far a served kernel is from the default one on the operands of a call, in parts of
    the largest magnitude of the output.
    """

    label: str
    workload: str
    candidate: str
    difference: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """Differences from the golden outputs, in parts of the largest magnitude of each; `tolerance`
    is what they may be. `calls`: those whose kernel differs from the default one by more.
    """

    tolerance: float
    default: Mapping[str, float]
    served: Mapping[str, float]
    calls: tuple[CallDifference, ...]

    @property
    def right(self) -> bool:
        found = (*self.default.values(), *self.served.values())
        # A difference that is no number is none that is small enough.
        return all(each <= self.tolerance for each in found) and not self.calls


def check(
    plan: Plan,
    kernels: Mapping[str, ServedKernel],
    artifacts: Mapping[str, bytes],
    weights: bytes,
    golden: bytes,
) -> Checked:
    """`artifacts`: bytes of all kernels, fallbacks and pack kernels, by their hash."""
    both = {key: (each.fallback, each.kernel) for key, each in kernels.items()}
    machine = Machine(plan, both, artifacts, weights)
    inputs = {part.name: _bytes_of(golden, part) for part in plan.golden.inputs}
    machine.feed(inputs)
    for call in plan.calls:
        machine.call(call, DEFAULT)
    default = dict(_from_golden(machine, golden))
    machine.feed(inputs)
    calls = [_compared(machine, call, both[plan.kernels[call.kernel]]) for call in plan.calls]
    return Checked(
        tolerance=plan.golden.tolerance,
        default=default,
        served=dict(_from_golden(machine, golden)),
        calls=tuple(
            each for each in calls if each and not each.difference <= plan.golden.tolerance
        ),
    )


def needed(kernels: Sequence[ServedKernel]) -> dict[str, Kernel]:
    """The kernels and fallbacks, by hash, each once."""
    return {kernel.sha256: kernel for each in kernels for kernel in (each.kernel, each.fallback)}


def _compared(
    machine: Machine, call: PlanCall, kernels: tuple[Kernel, Kernel]
) -> CallDifference | None:
    """Runs a call, and where its kernel is not the default one, that first on the same operands."""
    if kernels[DEFAULT].sha256 == kernels[SERVED].sha256:
        machine.call(call, SERVED)
        return None
    output = call.tensors[-1]
    # A call may write where it reads, and its states.
    states = (i for i in call.tensors if machine.plan.tensors[i].state is not None)
    before = {i: machine.read(i) for i in (*states, output)}
    machine.call(call, DEFAULT)
    expected = machine.read(output)
    for tensor, entries in before.items():
        machine.write(tensor, entries)
    machine.call(call, SERVED)
    return CallDifference(
        label=call.label,
        workload=machine.plan.kernels[call.kernel],
        candidate=kernels[SERVED].candidate,
        difference=difference(machine.read(output), expected),
    )


def _from_golden(machine: Machine, golden: bytes) -> Iterator[tuple[str, float]]:
    for port, part in zip(machine.plan.outputs, machine.plan.golden.outputs, strict=True):
        dtype = NUMPY[port.dtype.stored]
        expected = np.frombuffer(_bytes_of(golden, part), dtype)
        yield port.name, difference(machine.read(port.tensor), expected, part.off or 0)


def difference(found: Array, expected: Array, off: int = 0) -> float:
    """The largest but for `off` entries, in parts of the largest magnitude that is expected; what
    is no number or infinite is near itself alone."""
    wanted, made = expected.astype(np.float64), found.astype(np.float64)
    with np.errstate(invalid="ignore"):
        apart = np.abs(made - wanted)
    apart[(made == wanted) | (np.isnan(made) & np.isnan(wanted))] = 0
    apart[np.isnan(apart)] = np.inf
    furthest = np.sort(apart)[: max(0, apart.size - off)].max(initial=0.0)
    largest = np.abs(wanted[np.isfinite(wanted)]).max(initial=0.0)
    return float(furthest / largest) if largest else float(furthest)


def _bytes_of(golden: bytes, part: GoldenPart) -> bytes:
    return golden[part.offset : part.offset + part.bytes]
