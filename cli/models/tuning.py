"""Follows the tuning of a model: how long an inference is expected to take, class by class."""

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from pydantic import BaseModel
from rich.text import Text

from cli.figures import duration
from cli.gateway_client import GatewayClient
from cli.models.dimensions import in_bytes, written
from cli.models.drawing import drawn
from cli.terminal import live_display, notes
from kernelzoo.domain.precision import Precision
from kernelzoo.errors import StackError
from services.gateway.wire.models import PlanCoverage

POLL_S = 1.0

Key = tuple[str, str]
"""A class of devices, and a plan by its dimensions and precision."""


class TunedPlan(BaseModel):
    """An inference was expected to take so long when its time was first known, and is now. Null
    while nothing of the plan is measured on the class.
    """

    device_class: str
    dimensions: dict[str, int]
    precision: Precision
    first_ms: float | None
    expected_ms: float | None
    measured: float
    workloads: int
    confirmed: int
    confirmed_flops: float

    @property
    def plan(self) -> str:
        return _plan(self)

    @property
    def line(self) -> str:
        fell = ""
        if self.first_ms and self.expected_ms and self.expected_ms < self.first_ms:
            times = self.first_ms / self.expected_ms
            fell = f", {duration(self.first_ms)} at first ({times:.2f}×)"
        known = "" if self.measured == 1 else f" from {self.measured:.0%} of its operations"
        return (
            f"{self.device_class}, {self.plan}: expected "
            f"{duration(self.expected_ms)}{known}{fell}; confirmed {self.confirmed}/"
            f"{self.workloads} kernels, {self.confirmed_flops:.0%} of its operations"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelPatience:
    """Limits how long to wait in all, and for the next sign of progress."""

    timeout_s: float
    idle_s: float


def follow_model(
    gateway: GatewayClient, name: str, patience: ModelPatience
) -> tuple[TunedPlan, ...]:
    """Until all kernels of all plans are confirmed on some class. Raises StackError when that takes
    longer than `patience`.
    """
    gateway.model(name)
    started_s = changed_s = time.monotonic()
    before: tuple[TunedPlan, ...] = ()
    with live_display(notes) as show:
        for seen in sights(gateway, name):
            if is_done(seen):
                break
            now_s = time.monotonic()
            changed_s = now_s if seen != before else changed_s
            before = seen
            if now_s - started_s > patience.timeout_s or now_s - changed_s > patience.idle_s:
                raise StackError(why_unfinished(name, seen, gateway.url))
            lines = "\n".join(each.line for each in seen) or f"{name}: nothing is measured yet"
            drawing = pictures(gateway, name, seen[:1]) if notes.is_terminal else ""
            show(lines, Text(f"{lines}\n{drawing}"))
    return seen


def sights(gateway: GatewayClient, name: str) -> Iterator[tuple[TunedPlan, ...]]:
    """Yields how far each plan is tuned on each class: now, and again every second."""
    first: dict[Key, float] = {}
    while True:
        covered = measured_first(gateway.model_coverage(name).coverage)
        for each in covered:
            if each.expected_ms is not None:
                first.setdefault(_key(each), each.expected_ms)
        yield tuple(_tuned(each, first) for each in covered)
        time.sleep(POLL_S)


def measured_first(covered: Iterable[PlanCoverage]) -> list[PlanCoverage]:
    """Without classes of which nothing is measured, as those of pages that no agent is like."""
    measured = (each for each in covered if each.measured > 0)
    return sorted(measured, key=lambda each: (-each.confirmed_flops, -each.measured))


def pictures(gateway: GatewayClient, name: str, plans: Iterable[TunedPlan]) -> str:
    """Draws how the time of an inference fell, plan by plan; nothing of those of which no kernel
    won."""
    told = (
        (
            each,
            drawn(gateway.model_timeline(name, each.device_class, each.dimensions, each.precision)),
        )
        for each in plans
    )
    return "\n".join(
        f"{each.device_class}, {each.plan}\n{picture}" for each, picture in told if picture
    )


def is_done(plans: Iterable[TunedPlan]) -> bool:
    """Returns whether some class has a confirmed kernel for every workload of every plan that it
    has."""
    unfinished: dict[str, bool] = {}
    for each in plans:
        lacking = each.confirmed < each.workloads
        unfinished[each.device_class] = unfinished.get(each.device_class, False) or lacking
    return not all(unfinished.values())


def why_unfinished(name: str, plans: tuple[TunedPlan, ...], url: str) -> str:
    more = "run `kernelzoo fleet --agents 5`"
    best = max(plans, key=lambda each: each.confirmed_flops, default=None)
    if best is None or best.measured == 0:
        return (
            f"no agent has measured anything of {name} yet; open {url}/agent in a browser or {more}"
        )
    return (
        f"{name} is tuned in part: {best.line}. Agents go on without this command; {more} to have "
        f"it sooner, `kernelzoo models show {name}` tells how far it has come"
    )


def _key(covered: PlanCoverage) -> Key:
    return covered.device_class, _plan(covered)


def _plan(of: PlanCoverage | TunedPlan) -> str:
    return written(of.dimensions) + in_bytes(of.precision)


def _tuned(covered: PlanCoverage, first: dict[Key, float]) -> TunedPlan:
    return TunedPlan(
        device_class=covered.device_class,
        dimensions=covered.dimensions,
        precision=covered.precision,
        first_ms=first.get(_key(covered)),
        expected_ms=covered.expected_ms,
        measured=covered.measured,
        workloads=covered.workloads,
        confirmed=covered.confirmed,
        confirmed_flops=covered.confirmed_flops,
    )
